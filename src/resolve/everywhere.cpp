// SPDX-License-Identifier: Apache-2.0
#include "resolve/everywhere.hpp"

#include "binary/binary.hpp"
#include "resolve/app.hpp"
#include "resolve/in_process.hpp"
#include "resolve/locate.hpp"
#include "uprobectl/arch.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::resolve {

namespace {

constexpr std::size_t least_build_id = 16; // digits

bool is_build_id(std::string_view text) {
  return text.size() >= least_build_id && text.size() % 2 == 0 &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

std::optional<FileIdentity> identity_at(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino};
}

// The folders of Android's partitions and modules.
std::vector<std::string> android_folders(const std::string& root) {
  std::vector<std::string> folders;
  for (const char* const partition : {"system", "system_ext", "product", "vendor", "odm"})
    folders.push_back(fmt::format("{}/{}", root, partition));
  for (const std::string& module : list_folder(root + "/apex"))
    if (!module.starts_with('.') && !module.contains('@')) // NAME@VERSION is the same folder
      folders.push_back(fmt::format("{}/apex/{}", root, module));
  return folders;
}

// The folders with libraries: the usual ones, and those of the loader's cache.
std::set<std::string> library_folders(const std::string& root) {
  std::set<std::string> folders;
  for (const std::string& folder : host_search_paths().library_dirs) folders.insert(root + folder);
  for (const std::string& folder : android_folders(root))
    for (const char* const name : {"lib", "lib64"})
      folders.insert(fmt::format("{}/{}", folder, name));
  if (const auto cache = MappedFile::open(root + "/etc/ld.so.cache"))
    // A cache that cannot be read names no folders.
    static_cast<void>(for_each_cached_library(cache->bytes(), [&](const LoaderCacheEntry& entry) {
      folders.insert(root + std::string(entry.path.substr(0, entry.path.rfind('/'))));
    }));
  return folders;
}

class CopySearch {
public:
  CopySearch(std::string_view name, const std::string& root)
      : by_build_id_(is_build_id(name)), name_(by_build_id_ ? lower_case(name) : std::string(name)),
        root_(root) {}

  Result<Targets> run() {
    if (root_.empty()) search_processes();
    for (const std::string& folder : library_folders(root_))
      for (const std::string& file : list_folder(folder))
        if (by_build_id_ || can_be_copy(file, name_)) add_file(folder + "/" + file);
    for (const std::string& folder : android_folders(root_))
      for (const char* const apps : {"app", "priv-app"})
        search_apps(fmt::format("{}/{}", folder, apps));
    const std::string apps = root_ + "/data/app";
    search_apps(apps);
    if (::access(apps.c_str(), R_OK) != 0 && errno == EACCES)
      targets_.warnings.push_back(apps + ": cannot be searched: not permitted");
    if (targets_.files.empty()) {
      Error error{ErrorKind::not_found,
                  fmt::format("{}: {}no library folder and no app has a library of this {}", name_,
                              root_.empty() ? "no process maps, and " : "",
                              by_build_id_ ? "build id" : "name")};
      for (const std::string& warning : targets_.warnings) error.hints.push_back(warning);
      return fail(std::move(error));
    }
    if (unreadable_ != 0)
      targets_.warnings.push_back(
          fmt::format("{}: {} not be searched: not permitted", name_,
                      counted(unreadable_, "process could", "processes could")));
    targets_.text = name_;
    targets_.several = true;
    return std::move(targets_);
  }

private:
  void search_processes() {
    for (const pid_t pid : process::all_processes()) {
      Result<std::vector<ProcessFile>> found = std::vector<ProcessFile>();
      if (by_build_id_) {
        auto all = find_all_in_processes({&pid, 1});
        if (all)
          found = std::move(all->files);
        else
          found = fail(std::move(all).error());
      } else {
        found = find_in_processes(name_, {&pid, 1}, can_be_copy);
      }
      if (!found && found.error().kind == ErrorKind::not_permitted) ++unreadable_;
      if (!found) continue; // or it has ended
      for (ProcessFile& file : *found)
        add({.path = {.file = std::move(file.open_path), .entry = file.display_path.entry},
             .display_path = std::move(file.display_path),
             .opened = nullptr,
             .warnings = std::move(file.warnings)},
            file.identity);
    }
  }

  void add_file(const std::string& path) {
    const auto identity = identity_at(path);
    if (!identity || !is_elf_file(path)) return;
    add({.path = {path, std::nullopt},
         .display_path = {path, std::nullopt},
         .opened = nullptr,
         .warnings = {}},
        *identity);
  }

  // Searches the folders of packages in this one, or one folder deeper: "~~SUFFIX==/NAME-SUFFIX==".
  void search_apps(const std::string& folder, bool is_outer = true) {
    for (const std::string& name : list_folder(folder)) {
      const std::string package = fmt::format("{}/{}", folder, name);
      const auto app = AppFiles::read_folder(package, std::nullopt);
      if (!app && is_outer && app.error().kind == ErrorKind::not_found) search_apps(package, false);
      auto files = app ? app->all() : fail(app.error());
      if (!files) continue; // it has no libraries
      for (TargetFile& file : files->files) {
        const std::string& whole = file.path.entry ? *file.path.entry : file.path.file;
        const auto identity = identity_at(file.path.file);
        if (identity && (by_build_id_ || can_be_copy(file_name_of(whole), name_)))
          add(std::move(file), *identity);
      }
    }
  }

  bool has_build_id(const TargetFile& file) const {
    auto mapped = MappedFile::open(file.path.file);
    if (!mapped) return false;
    const auto opened =
        binary::Binary::open(std::make_shared<const MappedFile>(std::move(*mapped)), file.path);
    return opened && (*opened)->image().build_id() == name_;
  }

  void add(TargetFile file, const FileIdentity& identity) {
    if (!known_.emplace(identity, file.path.entry.value_or("")).second) return;
    if (by_build_id_ && !has_build_id(file)) return;
    targets_.files.push_back(std::move(file));
  }

  bool by_build_id_;
  std::string name_; // a build id in lower case, as images have it
  std::string root_;
  Targets targets_;
  std::set<std::pair<FileIdentity, std::string>> known_; // with the entry
  std::size_t unreadable_ = 0;                           // processes
};

} // namespace

Result<Targets> find_everywhere(std::string_view name, const std::string& root) {
  if (name.empty() || name.contains('/') || name == "*")
    return fail(
        ErrorKind::usage,
        fmt::format("'{}': --everywhere needs the name or the build id of a library", name));
  return CopySearch(name, root).run();
}

} // namespace uprobectl::resolve
