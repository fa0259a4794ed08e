#include "resolve/app.hpp"
#include "resolve/find_file.hpp"
#include "resolve/library_name.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace uprobectl {

namespace {

TargetFile as_found(const BinaryPath& path, std::shared_ptr<const MappedFile> opened = nullptr) {
  return {.path = path, .shown = path, .opened = std::move(opened), .warnings = {}};
}

} // namespace

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
    candidates.reserve(meant.size());
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
                        any ? "libraries" : "it", joined(others), joined(device))};
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
