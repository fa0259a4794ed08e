#include "resolve/app.hpp"

#include "resolve/command.hpp"
#include "resolve/duplicates.hpp"
#include "resolve/elf_file.hpp"
#include "resolve/find_file.hpp"
#include "resolve/joined.hpp"
#include "resolve/library_name.hpp"
#include "uprobectl/archive.hpp"
#include "uprobectl/spelling.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>

namespace uprobectl {

namespace {

// pm starts a Java program on old versions of Android.
constexpr std::chrono::seconds patience{20};

struct InstructionSet {
  std::string_view abi;  // in APKs: lib/ABI/
  std::string_view name; // in folders: lib/ISA/, oat/ISA/
};
// VMRuntime.ABI_TO_INSTRUCTION_SET_MAP (AOSP libcore).
constexpr std::array instruction_sets = {
    InstructionSet{"arm64-v8a", "arm64"}, InstructionSet{"armeabi-v7a", "arm"},
    InstructionSet{"armeabi", "arm"},     InstructionSet{"x86_64", "x86_64"},
    InstructionSet{"x86", "x86"},         InstructionSet{"riscv64", "riscv64"},
};

std::string_view instruction_set_of(std::string_view abi) {
  const auto* const known = std::ranges::find(instruction_sets, abi, &InstructionSet::abi);
  return known == instruction_sets.end() ? abi : known->name;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

// What one of Android's own commands prints.
Result<std::string> ask_android(const std::vector<std::string>& words) {
  auto result = run_command(words, patience);
  if (!result && result.error().kind == ErrorKind::not_found)
    return fail(Error{ErrorKind::unsupported,
                      fmt::format("this is not Android: no `{}` in PATH", words.front())}
                    .hint("--app asks Android which files a package has"));
  if (!result) return fail(std::move(result).error());
  if (result->exit_code == 0) return std::move(result->output);
  const std::string_view said =
      first_line(result->errors.empty() ? result->output : result->errors);
  return fail(said.empty() ? ErrorKind::not_found : ErrorKind::io,
              fmt::format("`{}` ended with {}{}{}", fmt::join(words, " "), result->exit_code,
                          said.empty() ? "" : ": ", said));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (end != 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// "arm64-v8a,armeabi-v7a,armeabi", or of Android before 5.0 the one ABI.
Result<std::vector<std::string>> abis_of_device() {
  for (const char* property : {"ro.product.cpu.abilist", "ro.product.cpu.abi"}) {
    const auto text = ask_android({"getprop", property});
    if (!text) return fail(text.error());
    auto abis = split(first_line(*text), ',');
    if (!abis.empty()) return abis;
  }
  return fail(ErrorKind::unsupported, "getprop does not tell which ABIs this device runs");
}

// Letters, digits, '_' and '.', and no option: what pm is given.
bool is_package_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  });
}

TargetFile as_found(BinaryPath path, std::shared_ptr<const MappedFile> opened = nullptr) {
  return {.path = path, .shown = path, .opened = std::move(opened), .warnings = {}};
}

} // namespace

Result<AppFiles> AppFiles::of(const std::string& package) {
  if (!is_package_name(package))
    return fail(ErrorKind::usage, fmt::format("'{}' is no name of a package", package));
  auto listing = ask_android({"pm", "path", package});
  if (!listing && listing.error().kind == ErrorKind::not_found)
    return fail(
        Error{ErrorKind::not_found, fmt::format("no package '{}' is installed", package)}.hint(
            "list them with: pm list packages"));
  if (!listing) return fail(std::move(listing).error());
  auto abis = abis_of_device();
  if (!abis) return fail(std::move(abis).error());

  AppFiles app;
  app.package_ = package;
  app.abis_ = std::move(*abis);
  if (auto read = app.read_archives(*listing); !read) return fail(std::move(read).error());
  app.read_extracted();
  app.choose_abi();
  app.read_compiled();
  return app;
}

// "package:/data/app/~~x/pkg-y/base.apk", a line each.
Result<void> AppFiles::read_archives(std::string_view listing) {
  constexpr std::string_view prefix = "package:";
  for (std::string& line : split(listing, '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.starts_with(prefix) || !line.substr(prefix.size()).starts_with('/')) continue;
    std::string path = line.substr(prefix.size());
    auto file = MappedFile::open(path);
    if (!file) return fail(std::move(file).error());
    archives_.push_back({path, std::make_shared<const MappedFile>(std::move(*file))});
    const Archive& archive = archives_.back();
    const auto parsed = uprobectl::Archive::parse(archive.file->bytes());
    if (!parsed) return fail(Error(parsed.error()).within(path));
    if (auto warning = duplicate_warning(*archive.file, path))
      warnings_.push_back(std::move(*warning));
    std::set<std::string_view> seen;
    const auto read = parsed->for_each([&](const ArchiveEntry& entry) {
      const auto parts = split(entry.name, '/'); // lib/ABI/libfoo.so
      if (parts.size() != 3 || parts[0] != "lib" || !is_library_name(parts[2])) return true;
      if (seen.insert(entry.name).second)
        libraries_.push_back({.name = parts[2],
                              .abi = parts[1],
                              .path = {path, std::string(entry.name)},
                              .archive = archive.file,
                              .stored = entry.probeable()});
      return true;
    });
    if (!read) return fail(Error(read.error()).within(path));
  }
  if (archives_.empty())
    return fail(ErrorKind::io,
                fmt::format("`pm path {}` names no file: '{}'", package_, first_line(listing)));
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

// Libraries that the installer took out of the APKs (extractNativeLibs, useLegacyPackaging).
void AppFiles::read_extracted() {
  std::vector<Library> extracted;
  for (const std::string& folder : folders())
    for (const std::string& abi : abis_) {
      const std::string inside = fmt::format("{}/lib/{}", folder, instruction_set_of(abi));
      for (const std::string& name : names_in(inside))
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

void AppFiles::read_compiled() {
  for (const std::string& folder : folders()) {
    const std::string inside =
        fmt::format("{}/oat/{}", folder, instruction_set_of(abi_.value_or(abis_.front())));
    for (const std::string& name : names_in(inside))
      if (name.ends_with(".odex")) compiled_.push_back(inside + "/" + name);
  }
}

// The first of the device's that the package has a library for, as the installer chooses it
// (NativeLibraryHelper.findSupportedAbi).
void AppFiles::choose_abi() {
  const auto has = [&](const std::string& abi) {
    return std::ranges::find(libraries_, abi, &Library::abi) != libraries_.end();
  };
  if (const auto found = std::ranges::find_if(abis_, has); found != abis_.end()) abi_ = *found;
}

// Those of the app's ABI that the loader can come by: it searches the folder first, and of the
// APKs' libraries maps those that are stored.
std::vector<const AppFiles::Library*> AppFiles::usable() const {
  std::vector<const Library*> result;
  std::set<std::string_view> extracted;
  for (const Library& library : libraries_) {
    if (library.abi != abi_) continue;
    if (library.archive == nullptr) extracted.insert(library.name);
    if (library.archive == nullptr || !extracted.contains(library.name)) result.push_back(&library);
  }
  return result;
}

std::optional<TargetFile> AppFiles::find_by_file_name(std::string_view text) const {
  for (BinaryPath& reading : readings(text)) {
    for (const Archive& archive : archives_)
      if (file_name_of(archive.path) == reading.file) {
        TargetFile file = as_found({archive.path, std::move(reading.entry)}, archive.file);
        file.warnings = warnings_;
        return file;
      }
    for (const std::string& path : compiled_)
      if (!reading.entry && file_name_of(path) == reading.file)
        return as_found({path, std::nullopt});
  }
  return std::nullopt;
}

Result<std::optional<TargetFile>> AppFiles::find(std::string_view text) const {
  if (auto file = find_by_file_name(text)) return file;
  if (text.find('/') != std::string_view::npos) return std::nullopt;
  std::vector<const Library*> meant = usable();
  std::erase_if(meant, [&](const Library* library) { return !is_called(library->name, text); });
  const auto prefer = [&](auto&& better) {
    if (std::ranges::any_of(meant, better))
      std::erase_if(meant, [&](const Library* library) { return !better(library); });
  };
  prefer([&](const Library* library) { return library->name == text; });
  prefer([](const Library* library) { return library->archive == nullptr; });
  prefer([](const Library* library) { return library->stored; });
  if (meant.empty()) return std::nullopt;
  if (meant.size() > 1) {
    std::vector<std::string> candidates;
    for (const Library* library : meant) candidates.push_back(to_string(library->path));
    return fail(ambiguous_target(text, candidates));
  }
  TargetFile file = as_found(meant.front()->path, meant.front()->archive);
  if (file.path.entry) file.warnings = warnings_;
  return file;
}

Result<Targets> AppFiles::all() const {
  Targets targets{.text = "*", .several = true, .files = {}, .warnings = warnings_};
  for (const Library* library : usable())
    targets.files.push_back(as_found(library->path, library->archive));
  for (const std::string& path : compiled_) targets.files.push_back(as_found({path, std::nullopt}));
  if (targets.files.empty()) return fail(no_library("*"));
  return targets;
}

Error AppFiles::no_library(std::string_view text) const {
  const std::vector<std::string_view> device(abis_.begin(), abis_.end());
  const bool any = text == "*";
  std::set<std::string_view> others;
  std::vector<std::string> names;
  for (const Library& library : libraries_) {
    if (library.abi == abi_)
      names.push_back(library.name);
    else if (any || is_called(library.name, text))
      others.insert(library.abi);
  }
  if (!others.empty())
    return {ErrorKind::not_found,
            fmt::format("{}: {} has {} only for {}, this device runs {}", text, package_,
                        any ? "libraries" : "it", joined({others.begin(), others.end()}),
                        joined(device))};
  if (any)
    return {ErrorKind::not_found,
            fmt::format("*: {} has no native library and no compiled code", package_)};
  Error error{ErrorKind::not_found, fmt::format("{}: {} has no library of this name for {}", text,
                                                package_, abi_ ? *abi_ : joined(device))};
  if (const auto near = nearest(text, names); !near.empty())
    error = std::move(error).hint(did_you_mean(near));
  return std::move(error).hint(
      fmt::format("list what it has with: uprobectl list-symbols --app {} '*'", package_));
}

} // namespace uprobectl
