// SPDX-License-Identifier: Apache-2.0
#include "resolve/in_process.hpp"

#include "process/proc.hpp"
#include "resolve/locate.hpp"
#include "uprobectl/archive.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <map>

namespace uprobectl::resolve {

namespace {

std::optional<FileIdentity> identity_of(const std::string& path) {
  const auto status = stat_path(path);
  if (!status || !S_ISREG(status->st_mode)) return std::nullopt;
  return FileIdentity{status->st_dev, status->st_ino};
}

// A path that opens a mapping's file: the mapped path, or /proc/PID/map_files if another file or no
// file is at that path now.
struct OpenPath {
  std::string path;
  bool replaced = false;
};

OpenPath find_open_path(pid_t pid, const process::Mapping& mapping) {
  for (process::PathCandidate& candidate :
       path_candidates(pid, mapping, process::shares_mount_namespace(pid)))
    if (match_file_at(candidate.path, mapping) >= candidate.min_match)
      return {.path = std::move(candidate.path), .replaced = false};
  return {.path = map_files_path(pid, mapping), .replaced = true};
}

// Whether the mapping's file can have a path on disk: it is not a device or anonymous file.
bool is_on_disk(const process::Mapping& mapping) {
  constexpr std::string_view elsewhere[] = {"/dev/", "/memfd:", "/SYSV", "anon_inode:"};
  return mapping.path.starts_with('/') &&
         std::ranges::none_of(
             elsewhere, [&](std::string_view start) { return mapping.path.starts_with(start); });
}

// Folders in which a TARGET's name may be a symbolic link to a mapped file.
std::vector<std::string> link_folders() {
  std::vector<std::string> folders = {
      "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",  "/usr/bin", "/sbin", "/bin",
      "/usr/local/lib",  "/usr/lib",       "/usr/lib64", "/lib",     "/lib64"};
  for (const ArchInfo* const arch : all_archs())
    if (!arch->multiarch.empty()) folders.push_back(fmt::format("/usr/lib/{}", arch->multiarch));
  return folders;
}

// Collects the files of processes that a TARGET means, each once.
class ProcessSearch {
public:
  explicit ProcessSearch(std::string_view text, NameMatch match = can_mean_library)
      : text_(text), match_(match) {}

  Result<void> in_mappings(pid_t pid) {
    const auto mappings = process::read_mappings(pid);
    if (!mappings) return fail(mappings.error());
    for (const process::Mapping& mapping : *mappings) {
      if (match_(file_name_of(mapping.path), text_))
        add(pid, mapping, std::nullopt);
      else if (const auto entry = entry_at(pid, mapping);
               entry && match_(file_name_of(*entry), text_))
        add(pid, mapping, entry);
    }
    return {};
  }

  // Adds the mapped file that a symbolic link of that name, in a usual folder, points to.
  Result<void> by_link(pid_t pid) {
    const auto mappings = process::read_mappings(pid);
    if (!mappings) return fail(mappings.error());
    for (const std::string& folder : link_folders()) {
      const std::string path =
          fmt::format("{}{}/{}", process::live_path(pid, "root"), folder, text_);
      const auto identity = identity_of(path);
      if (!identity) continue;
      for (const process::Mapping& mapping : *mappings)
        if (mapping.identity.inode == identity->inode &&
            identity_of(find_open_path(pid, mapping).path) == identity) {
          add(pid, mapping, std::nullopt);
          return {};
        }
    }
    return {};
  }

  // Adds every executable mapping of an ELF file.
  Result<void> all_mappings(pid_t pid) {
    const auto mappings = process::read_mappings(pid);
    if (!mappings) return fail(mappings.error());
    for (const process::Mapping& mapping : *mappings) {
      if (!mapping.executable) continue;
      const std::string path = find_open_path(pid, mapping).path;
      if (!identity_of(path)) {
        if (is_on_disk(mapping)) add_unreachable(pid, mapping);
        continue;
      }
      const auto entry = entry_at(pid, mapping);
      if (entry || is_elf_file(path)) add(pid, mapping, entry);
    }
    return {};
  }

  // Adds the path below the process's root folder. Fails if it exists but cannot be read, because
  // the same path outside of the process's root can be another file.
  Result<void> in_root_folder(pid_t pid) {
    const auto mappings = process::read_mappings(pid);
    if (!mappings) return fail(mappings.error());
    std::optional<Error> unusable;
    for (const BinaryPath& reading : parse_candidates(text_)) {
      const std::string path = process::live_path(pid, "root") + reading.file;
      const auto status = stat_path(path);
      if (!status && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) continue;
      if (!status || !S_ISREG(status->st_mode)) {
        if (unusable) continue;
        const auto opened = open_regular_file(path);
        if (!opened) unusable = opened.error();
        continue;
      }
      const FileIdentity identity{status->st_dev, status->st_ino};
      ProcessFile file{
          .open_path = path, .display_path = reading, .identity = identity, .warnings = {}};
      const auto other = std::ranges::find_if(*mappings, [&](const process::Mapping& mapping) {
        return mapping.path == reading.file && mapping.identity.inode != identity.inode;
      });
      if (other != mappings->end())
        file.warnings.push_back(
            fmt::format("{}: process {} maps an older file that had this path", reading.file, pid));
      add(std::move(file));
      return {};
    }
    if (unusable) return fail(std::move(*unusable));
    return {};
  }

  std::vector<ProcessFile> take() { return std::move(found_); }
  std::vector<std::string> take_warnings() { return std::move(warnings_); }

private:
  void add_unreachable(pid_t pid, const process::Mapping& mapping) {
    auto text = fmt::format("skipped: {}: process {} maps a file that is no longer at this "
                            "path; only root can open it",
                            mapping.path, pid);
    if (std::ranges::find(warnings_, text) == warnings_.end()) warnings_.push_back(std::move(text));
  }

  void add(pid_t pid, const process::Mapping& mapping, std::optional<std::string> entry) {
    const OpenPath found = find_open_path(pid, mapping);
    const auto identity = identity_of(found.path);
    if (!identity) return;
    ProcessFile file{.open_path = found.path,
                     .display_path = {.file = mapping.path, .entry = std::move(entry)},
                     .identity = *identity,
                     .warnings = {}};
    if (found.replaced)
      file.warnings.push_back(fmt::format(
          "{}: process {} maps a file that is no longer at this path; using the mapped file",
          mapping.path, pid));
    add(std::move(file));
  }

  void add(ProcessFile file) {
    const auto same = [&](const ProcessFile& known) {
      return known.identity == file.identity && known.display_path.entry == file.display_path.entry;
    };
    if (std::ranges::none_of(found_, same)) found_.push_back(std::move(file));
  }

  // Returns the archive entry that is mapped there. Opens each archive once.
  std::optional<std::string> entry_at(pid_t pid, const process::Mapping& mapping) {
    auto known = archives_.find(mapping.identity);
    if (known == archives_.end()) {
      auto file = MappedFile::open(find_open_path(pid, mapping).path);
      const bool readable = file && archive::Archive::looks_like_archive(file->bytes());
      known = archives_
                  .emplace(mapping.identity,
                           readable ? std::make_unique<MappedFile>(std::move(*file)) : nullptr)
                  .first;
    }
    if (!known->second) return std::nullopt;
    const auto archive = archive::Archive::parse(known->second->bytes());
    if (!archive) return std::nullopt;
    const auto entry = archive->entry_at(mapping.offset);
    if (!entry || !*entry) return std::nullopt;
    return std::string((*entry)->name);
  }

  std::string_view text_;
  NameMatch match_;
  std::vector<ProcessFile> found_;
  std::vector<std::string> warnings_;
  std::map<FileIdentity, std::unique_ptr<MappedFile>> archives_; // null: not an archive
};

// Returns the machine of the program that a process runs; nullopt if /proc/PID/exe cannot be read.
std::optional<elf::Machine> machine_of_process(pid_t pid) {
  const auto file = MappedFile::open(process::live_path(pid, "exe"));
  if (!file) return std::nullopt;
  const auto machine = elf::read_machine(file->bytes());
  if (!machine) return std::nullopt;
  return *machine;
}

} // namespace

std::optional<pid_t> find_mapping_process(const std::string& path, std::span<const pid_t> pids) {
  const auto identity = identity_of(path);
  if (!identity) return std::nullopt;
  for (const pid_t pid : pids) {
    const auto mappings = process::read_mappings(pid);
    if (!mappings) continue;
    for (const process::Mapping& mapping : *mappings) {
      if (mapping.identity.inode != identity->inode) continue;
      // On overlayfs, the device number in maps differs from stat()'s. Compare the open files.
      if (mapping.identity == *identity || identity_of(map_files_path(pid, mapping)) == identity ||
          identity_of(find_open_path(pid, mapping).path) == identity)
        return pid;
    }
  }
  return std::nullopt;
}

Result<ProcessFiles> find_all_in_processes(std::span<const pid_t> pids) {
  ProcessSearch search("*");
  for (const pid_t pid : pids)
    if (auto done = search.all_mappings(pid); !done) return fail(std::move(done).error());
  return ProcessFiles{.files = search.take(), .warnings = search.take_warnings()};
}

Result<std::vector<ProcessFile>> find_in_processes(std::string_view text,
                                                   std::span<const pid_t> pids, NameMatch match) {
  ProcessSearch search(text, match);
  const bool bare = text.find('/') == std::string_view::npos;
  if (!bare && !text.starts_with('/')) return search.take(); // relative to our own folder
  if (text.starts_with("/proc/")) return search.take();      // a process as it is seen from here
  for (const pid_t pid : pids)
    if (auto done = bare ? search.in_mappings(pid) : search.in_root_folder(pid); !done)
      return fail(std::move(done).error());
  auto found = search.take();
  if (!found.empty() || !bare) return found;
  for (const pid_t pid : pids)
    if (auto done = search.by_link(pid); !done) return fail(std::move(done).error());
  return search.take();
}

std::optional<Error> find_architecture_mismatch(std::span<const pid_t> pids,
                                                const elf::Machine& machine,
                                                std::string_view subject) {
  std::optional<elf::Machine> other;
  for (const pid_t pid : pids) {
    const auto own = machine_of_process(pid);
    if (!own || *own == machine) return std::nullopt;
    other = own;
  }
  if (!other) return std::nullopt;
  const std::string who =
      pids.size() == 1 ? fmt::format("process {} is", pids.front()) : "the processes are";
  return Error{ErrorKind::wrong_machine,
               fmt::format("{}: the file is {}, but {} {}: a probe in it can never fire there",
                           subject, elf::to_string(machine), who, elf::to_string(*other))};
}

} // namespace uprobectl::resolve
