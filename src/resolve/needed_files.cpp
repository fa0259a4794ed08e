// SPDX-License-Identifier: Apache-2.0
#include "resolve/needed_files.hpp"

#include "binary/binary.hpp"
#include "resolve/locate.hpp"
#include "util/mapped_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <set>

namespace uprobectl::resolve {

namespace {

// A program or library, in the order in which the loader maps them.
struct LoadedObject {
  std::shared_ptr<binary::Binary> file;
  std::string origin;                   // its folder
  const LoadedObject* loader = nullptr; // the object that needs it; null for the program
};

std::vector<std::string_view> split_folders(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> folders;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(separators), text.size());
    folders.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return folders;
}

// Replaces $ORIGIN. nullopt if another variable is left.
std::optional<std::string> expand(std::string_view text, const std::string& origin) {
  std::string expanded(text);
  for (const std::string_view variable : {"$ORIGIN", "${ORIGIN}"})
    for (auto at = expanded.find(variable); at != std::string::npos;
         at = expanded.find(variable, at + origin.size()))
      expanded.replace(at, variable.size(), origin);
  if (expanded.contains('$') && !origin.contains('$')) return std::nullopt;
  return expanded;
}

// Searches the libraries breadth-first, as the loader maps them.
class NeededFiles {
public:
  explicit NeededFiles(std::shared_ptr<binary::Binary> program, std::string origin)
      : machine_(program->image().machine()), paths_(host_search_paths()) {
    objects_.push_back({.file = std::move(program), .origin = std::move(origin)});
    if (auto cache = MappedFile::open(paths_.loader_cache)) cache_.emplace(std::move(*cache));
  }

  // Visits each library that is needed, with its path, or null if no folder has it. Ends if `visit`
  // returns false.
  void visit(const std::function<bool(std::string_view name, const std::string* path)>& visit) {
    constexpr std::size_t max_objects = 4096; // a damaged file may need any number
    std::set<std::string, std::less<>> known;
    for (std::size_t i = 0; i < objects_.size() && i < max_objects; ++i) {
      const LoadedObject& object = objects_[i];
      for (const std::string_view name : object.file->image().needed_libraries().names) {
        if (!known.emplace(name).second) continue;
        std::optional<FoundLibrary> found = search(name, object);
        if (!visit(name, found ? &found->path : nullptr)) return;
        if (found)
          objects_.push_back({.file = std::move(found->file),
                              .origin = folder_of(found->path),
                              .loader = &object});
      }
    }
  }

private:
  static std::string folder_of(const std::string& path) {
    std::error_code error;
    const auto absolute = std::filesystem::absolute(path, error);
    return error ? std::string() : absolute.parent_path().string();
  }

  struct FoundLibrary {
    std::string path;
    std::shared_ptr<binary::Binary> file;
  };

  // Opens the file if the loader takes it: it skips those of other machines.
  std::optional<FoundLibrary> open_loadable(std::string path) const {
    if (!is_elf_file(path)) return std::nullopt;
    auto file = binary::Binary::open(path);
    if (!file || (*file)->image().machine() != machine_) return std::nullopt;
    return FoundLibrary{.path = std::move(path), .file = std::move(*file)};
  }

  std::optional<FoundLibrary> in_folders(std::string_view folders, std::string_view separators,
                                         const std::string& origin, std::string_view name) const {
    for (const std::string_view folder : split_folders(folders, separators)) {
      const auto expanded = expand(folder, origin);
      if (!expanded) continue;
      auto found = open_loadable(fmt::format("{}/{}", expanded->empty() ? "." : *expanded, name));
      if (found) return found;
    }
    return std::nullopt;
  }

  std::optional<FoundLibrary> in_cache(std::string_view name) const {
    std::optional<FoundLibrary> found;
    if (!cache_) return found;
    const auto read = for_each_cached_library(cache_->bytes(), [&](const LoaderCacheEntry& entry) {
      if (found || entry.name != name || entry.path.contains("/glibc-hwcaps/")) return;
      found = open_loadable(std::string(entry.path));
    });
    return read ? std::move(found) : std::nullopt;
  }

  std::optional<FoundLibrary> search(std::string_view name, const LoadedObject& object) const {
    if (name.contains('/')) {
      auto path = expand(name, object.origin);
      return path ? open_loadable(std::move(*path)) : std::nullopt;
    }
    const elf::NeededLibraries needed = object.file->image().needed_libraries();
    if (needed.runpath.empty())
      for (const LoadedObject* each = &object; each != nullptr; each = each->loader) {
        const elf::NeededLibraries own = each->file->image().needed_libraries();
        if (!own.runpath.empty()) continue; // its DT_RPATH does not count
        if (auto found = in_folders(own.rpath, ":", each->origin, name)) return found;
      }
    if (const char* const variable = std::getenv("LD_LIBRARY_PATH"))
      if (auto found = in_folders(variable, ":;", objects_.front().origin, name)) return found;
    if (auto found = in_folders(needed.runpath, ":", object.origin, name)) return found;
    if (auto found = in_cache(name)) return found;
    for (const std::string& folder : paths_.library_dirs)
      if (auto found = open_loadable(fmt::format("{}/{}", folder, name))) return found;
    return std::nullopt;
  }

  elf::Machine machine_;
  SearchPaths paths_;
  std::optional<MappedFile> cache_;
  std::deque<LoadedObject> objects_; // addresses stay the same
};

Result<NeededFiles> open_program(const std::string& program) {
  const auto path = find_program_file(program);
  if (!path) return fail(path.error());
  std::error_code error;
  const auto real_path = std::filesystem::canonical(*path, error);
  if (error == std::errc::no_such_file_or_directory)
    return fail(ErrorKind::not_found, program + ": no such file or directory");
  if (error) return fail(ErrorKind::io, fmt::format("{}: {}", program, error.message()));
  if (!is_elf_file(*path))
    return fail(ErrorKind::not_elf,
                fmt::format("'{}' is a script or another file without libraries of its own: give "
                            "the path of the library",
                            program));
  auto file = binary::Binary::open(real_path.string());
  if (!file) return fail(Error(file.error()).within(program));
  return NeededFiles(std::move(*file), real_path.parent_path().string());
}

} // namespace

Result<std::string> find_program_file(const std::string& command) {
  if (command.contains('/')) return command;
  SearchPaths paths;
  paths.program_dirs = host_search_paths().program_dirs;
  const auto found = locate(command, paths);
  if (found.empty()) return fail(ErrorKind::not_found, command + ": no program of this name");
  return found.front().path;
}

Result<std::optional<std::string>> find_needed_library(const std::string& program,
                                                       std::string_view wanted) {
  auto needed = open_program(program);
  if (!needed) return fail(std::move(needed).error());
  std::optional<std::string> library;
  std::string unfound; // the first library that was not found
  bool is_missing = false;
  needed->visit([&](std::string_view name, const std::string* path) {
    const bool is_wanted = can_mean_library(file_name_of(name), wanted);
    if (path == nullptr) {
      is_missing = is_wanted;
      if (unfound.empty()) unfound = name;
      return !is_missing;
    }
    if (is_wanted || can_mean_library(file_name_of(*path), wanted)) library = *path;
    return !library;
  });
  if (is_missing)
    return fail(ErrorKind::unsupported,
                fmt::format("'{}' needs it to start, but no folder that the loader searches has it",
                            program));
  if (!library && !unfound.empty())
    return fail(ErrorKind::unsupported,
                fmt::format("'{}' may need it for {}, which was not found: give its path", program,
                            unfound));
  return library;
}

Result<std::vector<std::string>> find_needed_libraries(const std::string& program) {
  auto needed = open_program(program);
  if (!needed) return fail(std::move(needed).error());
  std::vector<std::string> libraries;
  needed->visit([&](std::string_view /*name*/, const std::string* path) {
    if (path != nullptr) libraries.push_back(*path);
    return true;
  });
  return libraries;
}

} // namespace uprobectl::resolve
