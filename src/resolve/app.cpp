#include "resolve/app.hpp"

#include "resolve/android.hpp"
#include "resolve/duplicates.hpp"
#include "resolve/elf_file.hpp"
#include "resolve/library_name.hpp"
#include "uprobectl/archive.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>

namespace uprobectl {

namespace {

// VMRuntime.ABI_TO_INSTRUCTION_SET_MAP (AOSP libcore): of lib/ABI in APKs, lib/ISA in folders.
std::string_view instruction_set_of(std::string_view abi) {
  for (const ArchInfo* const info : all_archs())
    if (std::ranges::find(info->android_abis, abi) != info->android_abis.end())
      return info->android_isa;
  return abi;
}

// "lib/ABI/libfoo.so": where the loader looks in an APK, and nowhere else.
struct EntryParts {
  std::string_view abi;
  std::string_view name;
};
std::optional<EntryParts> parts_of(std::string_view entry) {
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

} // namespace

Result<AppFiles> AppFiles::of(const std::string& package) {
  const auto archives = archives_of_package(package);
  if (!archives) return fail(archives.error());
  auto abis = abis_of_device();
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

Result<void> AppFiles::read_archive(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return fail(std::move(mapped).error());
  archives_.push_back({path, std::make_shared<const MappedFile>(std::move(*mapped))});
  const auto& file = archives_.back().file;
  const auto archive = uprobectl::Archive::parse(file->bytes());
  if (!archive) return fail(Error(archive.error()).within(path));
  if (auto warning = duplicate_warning(*file, path)) warnings_.push_back(std::move(*warning));
  std::set<std::string_view> seen;
  const auto read = archive->for_each([&](const ArchiveEntry& entry) {
    const auto parts = parts_of(entry.name);
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

} // namespace uprobectl
