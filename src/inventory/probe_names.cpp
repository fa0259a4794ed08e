// SPDX-License-Identifier: Apache-2.0
#include "inventory/inventory.hpp"

#include "process/proc.hpp"
#include "uprobectl/process.hpp"
#include "uprobectl/symbolize.hpp"
#include "util/rooted_path.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>
#include <unistd.h>

namespace uprobectl::inventory {

namespace {

// Finds the probed files. The kernel reports a path without its mount namespace, and in another
// mount namespace the path can be another file.
class ProbedFileFinder {
public:
  explicit ProbedFileFinder(std::span<const InstalledProbe> probes);

  struct Found {
    std::string path; // can be opened from here, possibly through a descriptor of the holder
    FileIdentity identity;
    // The file is in another mount namespace or below another root directory.
    bool in_other_root = false;
  };
  // Returns nullopt if the file is gone. Errors: ambiguous if it can be one of several files.
  Result<std::optional<Found>> find(const InstalledProbe& probe);

private:
  // The root directory of a process in another mount namespace.
  struct OtherRoot {
    pid_t pid = 0;
    FileIdentity identity;
    std::string mount_namespace;
    auto operator<=>(const OtherRoot& other) const {
      return std::tie(mount_namespace, identity) <=>
             std::tie(other.mount_namespace, other.identity);
    }
  };

  void add_process(pid_t pid, const std::set<std::string_view>& paths);
  Result<std::optional<Found>> search(const InstalledProbe& probe) const;
  std::optional<Found> find_by_descriptor(const std::string& path, pid_t holder) const;
  std::optional<Found> find_by_holder(const std::string& path, pid_t holder) const;
  Result<std::optional<Found>> find_in_namespaces(const std::string& path) const;

  std::optional<std::string> own_namespace_;
  std::set<OtherRoot> other_roots_;
  std::multimap<std::string, Found> other_mappings_; // by path
  std::map<std::tuple<std::string, std::string, std::vector<ProbeHolder>>,
           Result<std::optional<Found>>>
      known_; // by path, mechanism and holders
};

// Returns nullopt unless the path is a regular file. Does not open it.
std::optional<ProbedFileFinder::Found> regular_file(std::string path, bool in_other_root) {
  const auto status = stat_path(path);
  if (!status || !S_ISREG(status->st_mode)) return std::nullopt;
  return ProbedFileFinder::Found{.path = std::move(path),
                                 .identity = {.device = status->st_dev, .inode = status->st_ino},
                                 .in_other_root = in_other_root};
}

// stat(2) follows /proc/PID/root itself, which must not be resolved as a path below the root
// directory.
std::optional<FileIdentity> find_root_directory(pid_t pid) {
  struct stat status{};
  if (::stat(process::live_path(pid, "root").c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{.device = status.st_dev, .inode = status.st_ino};
}

ProbedFileFinder::ProbedFileFinder(std::span<const InstalledProbe> probes)
    : own_namespace_(process::read_mount_namespace(::getpid())) {
  if (probes.empty()) return;
  std::set<std::string_view> paths;
  for (const InstalledProbe& probe : probes) paths.insert(probe.file);
  for (const pid_t pid : process::all_processes()) add_process(pid, paths);
}

void ProbedFileFinder::add_process(pid_t pid, const std::set<std::string_view>& paths) {
  auto mount_namespace = process::read_mount_namespace(pid);
  if (!mount_namespace || mount_namespace == own_namespace_) return;
  if (const auto root = find_root_directory(pid))
    other_roots_.insert(
        {.pid = pid, .identity = *root, .mount_namespace = std::move(*mount_namespace)});
  const auto mappings = process::read_mappings(pid);
  if (!mappings) return;
  for (const process::Mapping& mapping : *mappings)
    if (!mapping.deleted && paths.contains(mapping.path))
      if (auto found = regular_file(map_files_path(pid, mapping), true))
        other_mappings_.emplace(mapping.path, std::move(*found));
}

Result<std::optional<ProbedFileFinder::Found>> ProbedFileFinder::find(const InstalledProbe& probe) {
  const auto [known, is_new] =
      known_.try_emplace({probe.file, probe.mechanism, probe.holders}, std::nullopt);
  if (is_new) known->second = search(probe);
  return known->second;
}

Result<std::optional<ProbedFileFinder::Found>>
ProbedFileFinder::search(const InstalledProbe& probe) const {
  if (!probe.file.starts_with('/')) return std::nullopt;
  for (const ProbeHolder& holder : probe.holders)
    if (auto found = find_by_descriptor(probe.file, holder.pid)) return found;
  // For perf events the kernel reports the path that the holder gave it.
  if (probe.mechanism == "perf" && !probe.holders.empty())
    return find_by_holder(probe.file, probe.holders.front().pid);
  return find_in_namespaces(probe.file);
}

// A holder may have the probed file open, as uprobectl does.
std::optional<ProbedFileFinder::Found> ProbedFileFinder::find_by_descriptor(const std::string& path,
                                                                            pid_t holder) const {
  namespace fs = std::filesystem;
  auto here = regular_file(path, false);
  std::error_code failure;
  for (fs::directory_iterator entry(process::proc_path(holder, "fd"), failure);
       !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    std::error_code unreadable;
    if (fs::read_symlink(entry->path(), unreadable) != path) continue;
    auto found = regular_file(entry->path().string(), true);
    if (!found) continue;
    if (here && here->identity == found->identity) return here;
    for (const OtherRoot& root : other_roots_)
      if (auto rooted = regular_file(process::live_path(root.pid, "root") + path, true);
          rooted && rooted->identity == found->identity)
        return rooted;
    found->in_other_root = false;
    return found;
  }
  return std::nullopt;
}

std::optional<ProbedFileFinder::Found> ProbedFileFinder::find_by_holder(const std::string& path,
                                                                        pid_t holder) const {
  if (process::read_mount_namespace(holder) == own_namespace_ &&
      find_root_directory(holder) == find_root_directory(::getpid()))
    return regular_file(path, false);
  return regular_file(process::live_path(holder, "root") + path, true);
}

Result<std::optional<ProbedFileFinder::Found>>
ProbedFileFinder::find_in_namespaces(const std::string& path) const {
  std::vector<Found> others;
  for (const OtherRoot& root : other_roots_)
    if (auto found = regular_file(process::live_path(root.pid, "root") + path, true))
      others.push_back(std::move(*found));
  const auto [begin, end] = other_mappings_.equal_range(path);
  for (auto mapped = begin; mapped != end; ++mapped) others.push_back(mapped->second);
  const auto here = regular_file(path, false);
  if (!here && others.empty()) return std::nullopt;
  Found first = here ? *here : others.front();
  for (const Found& other : others)
    if (other.identity != first.identity)
      return fail(ErrorKind::ambiguous, path + ": different files in several mount namespaces");
  return first;
}

// Formats a function as `resolve` prints it.
std::string format_function(const symbolize::Function& function) {
  std::string text = function.name() + function.version;
  if (function.offset != 0) text += fmt::format("+{:#x}", function.offset);
  return text;
}

} // namespace

std::vector<std::string> symbolize_probes(std::span<InstalledProbe> probes) {
  ProbedFileFinder files(probes);
  std::map<std::string, std::shared_ptr<const MappedFile>> opened; // null if it cannot be read
  symbolize::ModuleCache modules;
  std::map<std::string, std::size_t> ambiguous; // number of probes by file
  for (InstalledProbe& probe : probes) {
    const auto found_file = files.find(probe);
    if (!found_file) ++ambiguous[probe.file];
    if (!found_file || !*found_file) continue;
    const ProbedFileFinder::Found& file = **found_file;
    if (file.in_other_root) probe.file = file.path;
    const auto [known, is_new] = opened.try_emplace(file.path);
    if (is_new)
      if (auto mapped = MappedFile::open(file.path); mapped && mapped->identity() == file.identity)
        known->second = std::make_shared<const MappedFile>(std::move(*mapped));
    if (known->second == nullptr) continue;
    const auto module_address = modules.find(known->second, file.path, probe.offset);
    if (!module_address) continue;
    probe.entry = module_address->module->entry();
    const auto frame = module_address->module->frame(module_address->address);
    if (frame->function) probe.symbol = format_function(*frame->function);
  }
  std::vector<std::string> warnings;
  warnings.reserve(ambiguous.size());
  for (const auto& [file, count] : ambiguous)
    warnings.push_back(fmt::format(
        "{}: {} without a symbol: mount namespaces have different files at this path, and the "
        "kernel does not report which of them is probed",
        file, count == 1 ? "1 probe is shown" : fmt::format("{} probes are shown", count)));
  return warnings;
}

} // namespace uprobectl::inventory
