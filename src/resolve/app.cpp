// SPDX-License-Identifier: Apache-2.0
#include "resolve/app.hpp"

#include "resolve/android.hpp"
#include "resolve/find_file.hpp"
#include "resolve/locate.hpp"
#include "uprobectl/archive.hpp"
#include "util/rooted_path.hpp"
#include "util/shell_words.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>

namespace uprobectl::resolve {

namespace {

// The native library folder beside an APK is lib/ISA, inside the APK it is lib/ABI (AOSP libcore,
// VMRuntime.ABI_TO_INSTRUCTION_SET_MAP).
std::string_view instruction_set_of(std::string_view abi) {
  for (const ArchInfo* const info : all_archs())
    if (std::ranges::find(info->android_abis, abi) != info->android_abis.end())
      return info->android_isa;
  return abi;
}

// Splits "lib/ABI/libfoo.so". The loader searches no other folders of an APK.
struct EntryParts {
  std::string_view abi;
  std::string_view name;
};
std::optional<EntryParts> split_entry(std::string_view entry) {
  constexpr std::string_view folder = "lib/";
  if (!entry.starts_with(folder)) return std::nullopt;
  entry.remove_prefix(folder.size());
  const auto slash = entry.find('/');
  if (slash == 0 || slash == std::string_view::npos || slash != entry.rfind('/'))
    return std::nullopt;
  const EntryParts parts{.abi = entry.substr(0, slash), .name = entry.substr(slash + 1)};
  if (!is_library_name(parts.name)) return std::nullopt;
  return parts;
}

TargetFile make_target_file(const BinaryPath& path,
                            std::shared_ptr<const MappedFile> opened = nullptr) {
  return {.path = path, .display_path = path, .opened = std::move(opened), .warnings = {}};
}

} // namespace

Result<AppFiles> AppFiles::read(const std::string& package) {
  const auto archives = package_archives(package);
  if (!archives) return fail(archives.error());
  auto abis = device_abis();
  if (!abis) return fail(std::move(abis).error());

  AppFiles app;
  app.package_ = package;
  app.abis_ = std::move(*abis);
  for (const std::string& path : *archives)
    if (auto read = app.read_archive(path); !read) return fail(std::move(read).error());
  app.read_extracted();
  app.choose_abi();
  app.read_compiled();
  return app;
}

Result<AppFiles> AppFiles::read_folder(const std::string& folder,
                                       const std::optional<std::string>& abi) {
  AppFiles app;
  app.package_ = folder;
  app.is_installed_ = false;
  app.uses_all_abis_ = !abi;
  app.abis_ = abi ? std::vector{*abi} : known_abis();
  app.abi_ = abi;
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0) return fail(system_error(errno, folder));
  std::vector<std::string> names = list_folder(folder);
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".apk"); });
  if (names.empty())
    return fail(Error{ErrorKind::not_found, folder + ": no APK in this folder"}.hint(
        "copy the folder of an installed package with: adb pull FOLDER, the one that `adb shell pm "
        "path PACKAGE` prints"));
  if (const auto base = std::ranges::find(names, "base.apk"); base != names.end())
    std::rotate(names.begin(), base, base + 1);
  for (const std::string& name : names)
    if (auto read = app.read_archive(fmt::format("{}/{}", folder, name)); !read)
      return fail(std::move(read).error());
  app.read_extracted();
  app.read_compiled();
  return app;
}

Result<void> AppFiles::read_archive(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return fail(std::move(mapped).error());
  archives_.push_back({path, std::make_shared<const MappedFile>(std::move(*mapped))});
  const auto& file = archives_.back().file;
  const auto archive = archive::Archive::parse(file->bytes());
  if (!archive) return fail(Error(archive.error()).within(path));
  if (auto warning = duplicate_warning(*file, path)) warnings_.push_back(std::move(*warning));
  std::set<std::string_view> seen;
  const auto read = archive->for_each([&](const archive::ArchiveEntry& entry) {
    const auto parts = split_entry(entry.name);
    if (parts && seen.insert(entry.name).second)
      libraries_.push_back({.name = std::string(parts->name),
                            .abi = std::string(parts->abi),
                            .path = {path, std::string(entry.name)},
                            .archive = file,
                            .stored = entry.probeable()});
    return true;
  });
  if (!read) return fail(Error(read.error()).within(path));
  return {};
}

std::vector<std::string> AppFiles::folders() const {
  std::vector<std::string> folders;
  for (const Archive& archive : archives_) {
    std::string folder = archive.path.substr(0, archive.path.rfind('/'));
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(std::move(folder));
  }
  return folders;
}

// Reads the libraries that the installer extracted (extractNativeLibs, useLegacyPackaging).
void AppFiles::read_extracted() {
  std::vector<Library> extracted;
  for (const std::string& folder : folders())
    for (const std::string& abi : abis_) {
      const std::string_view isa = instruction_set_of(abi);
      // armeabi and armeabi-v7a share a folder. Of a device, each is read, because one is chosen.
      if (uses_all_abis_ && *std::ranges::find(abis_, isa, instruction_set_of) != abi) continue;
      const std::string inside = fmt::format("{}/lib/{}", folder, isa);
      for (const std::string& name : list_folder(inside))
        if (is_elf_file(inside + "/" + name))
          extracted.push_back({.name = name,
                               .abi = abi,
                               .path = {inside + "/" + name, std::nullopt},
                               .archive = nullptr,
                               .stored = true});
    }
  libraries_.insert(libraries_.begin(), std::make_move_iterator(extracted.begin()),
                    std::make_move_iterator(extracted.end()));
}

std::vector<std::string_view> AppFiles::instruction_sets() const {
  if (!uses_all_abis_) return {instruction_set_of(abi_.value_or(abis_.front()))};
  std::vector<std::string_view> sets;
  for (const std::string& abi : abis_)
    if (const auto isa = instruction_set_of(abi); std::ranges::find(sets, isa) == sets.end())
      sets.push_back(isa);
  return sets;
}

void AppFiles::read_compiled() {
  for (const std::string& folder : folders())
    for (const std::string_view isa : instruction_sets()) {
      const std::string inside = fmt::format("{}/oat/{}", folder, isa);
      for (const std::string& name : list_folder(inside))
        if (name.ends_with(".odex")) compiled_.push_back({inside + "/" + name, std::nullopt});
      const std::string suffix = fmt::format(".{}.sdm", isa);
      for (const std::string& name : list_folder(folder))
        if (name.ends_with(suffix)) compiled_.push_back({folder + "/" + name, "primary.odex"});
    }
}

// Takes the first ABI of the device for which the package has a library, as the installer does
// (NativeLibraryHelper.findSupportedAbi).
void AppFiles::choose_abi() {
  const auto has = [&](const std::string& abi) {
    return std::ranges::find(libraries_, abi, &Library::abi) != libraries_.end();
  };
  if (const auto found = std::ranges::find_if(abis_, has); found != abis_.end()) abi_ = *found;
}

// The libraries of the app's ABI, or of all. An extracted one takes precedence over one in an APK.
std::vector<const AppFiles::Library*> AppFiles::usable_libraries() const {
  std::vector<const Library*> result;
  std::set<std::pair<std::string_view, std::string_view>> extracted;
  for (const Library& library : libraries_) {
    if (!uses_all_abis_ && library.abi != abi_) continue;
    const std::pair key(instruction_set_of(library.abi), std::string_view(library.name));
    if (library.archive == nullptr) extracted.insert(key);
    if (library.archive == nullptr || !extracted.contains(key)) result.push_back(&library);
  }
  return result;
}

Result<std::optional<TargetFile>> AppFiles::find_by_file_name(std::string_view text) const {
  for (BinaryPath& reading : parse_candidates(text)) {
    for (const Archive& archive : archives_)
      if (file_name_of(archive.path) == reading.file) {
        TargetFile file = make_target_file({archive.path, std::move(reading.entry)}, archive.file);
        file.warnings = warnings_;
        return file;
      }
    std::vector<std::string> paths;
    for (const BinaryPath& compiled : compiled_)
      if (file_name_of(compiled.file) == reading.file && (compiled.entry || !reading.entry))
        paths.push_back(compiled.file);
    if (paths.size() > 1) return fail(several_files(text, paths));
    if (paths.size() == 1)
      return make_target_file({std::move(paths.front()), std::move(reading.entry)});
  }
  for (const Archive& archive : archives_) {
    const std::string_view name = file_name_of(archive.path);
    if (!text.starts_with(name) || !text.substr(name.size()).starts_with('!')) continue;
    const auto path = archive.path + std::string(text.substr(name.size()));
    if (auto found = find_in_archive(path, uses_all_abis_ ? std::nullopt : abi_)) {
      if (!*found) return fail(std::move(*found).error());
      return std::move(**found);
    }
  }
  return std::nullopt;
}

Error AppFiles::several_files(std::string_view text, const std::vector<std::string>& paths) const {
  Error error = ambiguous_target(text, paths);
  if (!uses_all_abis_) return error;
  return std::move(error).hint("if they are for different ABIs, choose one with --abi");
}

Result<std::optional<TargetFile>> AppFiles::find(std::string_view text) const {
  auto named = find_by_file_name(text);
  if (!named || *named) return named;
  if (text.find('/') != std::string_view::npos) return std::nullopt;
  std::vector<const Library*> matches = usable_libraries();
  std::erase_if(matches,
                [&](const Library* library) { return !can_mean_library(library->name, text); });
  const auto prefer = [&](auto&& better) {
    if (std::ranges::any_of(matches, better))
      std::erase_if(matches, [&](const Library* library) { return !better(library); });
  };
  prefer([&](const Library* library) { return library->name == text; });
  // A library that is extracted for one ABI says nothing about the others.
  const auto has_better = [&](const Library* library, auto&& better) {
    return std::ranges::any_of(matches, [&](const Library* other) {
      return other->abi == library->abi && better(other) && !better(library);
    });
  };
  const auto prefer_of_abi = [&](auto&& better) {
    std::vector<const Library*> kept;
    std::ranges::copy_if(matches, std::back_inserter(kept),
                         [&](const Library* library) { return !has_better(library, better); });
    matches = std::move(kept);
  };
  prefer_of_abi([](const Library* library) { return library->archive == nullptr; });
  prefer_of_abi([](const Library* library) { return library->stored; });
  if (matches.empty()) return std::nullopt;
  if (matches.size() > 1) {
    std::vector<std::string> candidates;
    candidates.reserve(matches.size());
    for (const Library* library : matches) candidates.push_back(to_string(library->path));
    return fail(several_files(text, candidates));
  }
  TargetFile file = make_target_file(matches.front()->path, matches.front()->archive);
  if (file.path.entry) file.warnings = warnings_;
  return file;
}

Result<Targets> AppFiles::all() const {
  Targets targets{.text = "*", .several = true, .files = {}, .warnings = warnings_};
  for (const Library* library : usable_libraries())
    targets.files.push_back(make_target_file(library->path, library->archive));
  for (const BinaryPath& path : compiled_) targets.files.push_back(make_target_file(path));
  if (targets.files.empty()) return fail(no_library("*"));
  return targets;
}

Error AppFiles::no_library(std::string_view text) const {
  const bool any = text == "*";
  std::set<std::string_view> others;
  std::vector<std::string> names;
  for (const Library& library : libraries_) {
    if (uses_all_abis_ || library.abi == abi_)
      names.push_back(library.name);
    else if (any || can_mean_library(library.name, text))
      others.insert(library.abi);
  }
  const std::string wanted = abi_ ? *abi_ : joined(abis_);
  if (!others.empty())
    return {ErrorKind::not_found,
            fmt::format("{}: {} has {} only for {}, {}", text, package_, any ? "libraries" : "it",
                        joined(others),
                        is_installed_ ? "this device runs " + joined(abis_) : "not for " + wanted)};
  if (any)
    return {ErrorKind::not_found,
            fmt::format("*: {} has no native library and no compiled code", package_)};
  Error error{ErrorKind::not_found, fmt::format("{}: {} has no library of this name{}", text,
                                                package_, uses_all_abis_ ? "" : " for " + wanted)};
  if (const auto near = nearest(text, names); !near.empty())
    error = std::move(error).hint(did_you_mean(near));
  return std::move(error).hint(fmt::format("list its files with: uprobectl list-symbols {} {} '*'",
                                           is_installed_ ? "--app" : "--app-dir",
                                           shell_word(package_)));
}

std::vector<std::string> known_abis() {
  std::vector<std::string> abis;
  for (const ArchInfo* const info : all_archs())
    abis.insert(abis.end(), info->android_abis.begin(), info->android_abis.end());
  return abis;
}

} // namespace uprobectl::resolve
