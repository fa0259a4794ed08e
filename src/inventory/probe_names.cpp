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

namespace uprobectl {

namespace {

// The kernel tells the path of a probe's file only as the file's own mount namespace has it: at the
// same path of another namespace there may be another file.
class InventoryFiles {
public:
  explicit InventoryFiles(std::span<const InstalledProbe> probes);

  struct Found {
    std::string path; // where it can be opened from here, maybe only by a descriptor of its holder
    FileIdentity identity;
    // In another mount namespace, or below another root folder, to which `path` leads.
    bool elsewhere = false;
  };
  // Nullopt if it is gone. ambiguous if it may be one of several.
  Result<std::optional<Found>> find(const InstalledProbe& probe);

private:
  struct ForeignRoot {
    pid_t pid = 0;
    FileIdentity identity;
    std::string mount_namespace;
    auto operator<=>(const ForeignRoot& other) const {
      return std::tie(mount_namespace, identity) <=>
             std::tie(other.mount_namespace, other.identity);
    }
  };

  void look_at(pid_t pid, const std::set<std::string_view>& wanted);
  Result<std::optional<Found>> search(const InstalledProbe& probe) const;
  std::optional<Found> by_descriptor(const std::string& path, pid_t holder) const;
  std::optional<Found> by_holder(const std::string& path, pid_t holder) const;
  Result<std::optional<Found>> by_all(const std::string& path) const;

  std::optional<std::string> own_namespace_;
  std::set<ForeignRoot> foreign_roots_;
  std::multimap<std::string, Found> foreign_mappings_; // by path
  std::map<std::tuple<std::string, std::string, std::vector<ProbeHolder>>,
           Result<std::optional<Found>>>
      known_; // by path, mechanism and holders
};

// Regular files only. Nothing is opened.
std::optional<InventoryFiles::Found> regular_file(std::string path, bool elsewhere) {
  const auto status = stat_path(path);
  if (!status || !S_ISREG(status->st_mode)) return std::nullopt;
  return InventoryFiles::Found{.path = std::move(path),
                               .identity = {.device = status->st_dev, .inode = status->st_ino},
                               .elsewhere = elsewhere};
}

// The link itself is followed, so it is not taken for a path below that folder.
std::optional<FileIdentity> root_folder_of(pid_t pid) {
  struct stat status{};
  if (::stat(proc_path(pid, "root").c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{.device = status.st_dev, .inode = status.st_ino};
}

InventoryFiles::InventoryFiles(std::span<const InstalledProbe> probes)
    : own_namespace_(read_mount_namespace(::getpid())) {
  if (probes.empty()) return;
  std::set<std::string_view> wanted;
  for (const InstalledProbe& probe : probes) wanted.insert(probe.file);
  for (const pid_t pid : all_processes()) look_at(pid, wanted);
}

void InventoryFiles::look_at(pid_t pid, const std::set<std::string_view>& wanted) {
  auto mount_namespace = read_mount_namespace(pid);
  if (!mount_namespace || mount_namespace == own_namespace_) return;
  if (const auto root = root_folder_of(pid))
    foreign_roots_.insert(
        {.pid = pid, .identity = *root, .mount_namespace = std::move(*mount_namespace)});
  const auto mappings = read_mappings(pid);
  if (!mappings) return;
  for (const Mapping& mapping : *mappings)
    if (!mapping.deleted && wanted.contains(mapping.path))
      if (auto found = regular_file(map_files_path(pid, mapping), true))
        foreign_mappings_.emplace(mapping.path, std::move(*found));
}

Result<std::optional<InventoryFiles::Found>> InventoryFiles::find(const InstalledProbe& probe) {
  const auto [known, is_new] =
      known_.try_emplace({probe.file, probe.mechanism, probe.holders}, std::nullopt);
  if (is_new) known->second = search(probe);
  return known->second;
}

Result<std::optional<InventoryFiles::Found>>
InventoryFiles::search(const InstalledProbe& probe) const {
  if (!probe.file.starts_with('/')) return std::nullopt;
  for (const ProbeHolder& holder : probe.holders)
    if (auto found = by_descriptor(probe.file, holder.pid)) return found;
  // Of perf events the kernel tells the path as their maker gave it.
  if (probe.mechanism == "perf" && !probe.holders.empty())
    return by_holder(probe.file, probe.holders.front().pid);
  return by_all(probe.file);
}

// uprobectl keeps the files open that it probes.
std::optional<InventoryFiles::Found> InventoryFiles::by_descriptor(const std::string& path,
                                                                   pid_t holder) const {
  namespace fs = std::filesystem;
  auto here = regular_file(path, false);
  std::error_code failure;
  for (fs::directory_iterator entry(proc_path(holder, "fd"), failure);
       !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    std::error_code unreadable;
    if (fs::read_symlink(entry->path(), unreadable) != path) continue;
    auto found = regular_file(entry->path().string(), true);
    if (!found) continue;
    if (here && here->identity == found->identity) return here;
    for (const ForeignRoot& root : foreign_roots_)
      if (auto rooted = regular_file(proc_path(root.pid, "root") + path, true);
          rooted && rooted->identity == found->identity)
        return rooted;
    found->elsewhere = false;
    return found;
  }
  return std::nullopt;
}

std::optional<InventoryFiles::Found> InventoryFiles::by_holder(const std::string& path,
                                                               pid_t holder) const {
  if (read_mount_namespace(holder) == own_namespace_ &&
      root_folder_of(holder) == root_folder_of(::getpid()))
    return regular_file(path, false);
  return regular_file(proc_path(holder, "root") + path, true);
}

Result<std::optional<InventoryFiles::Found>> InventoryFiles::by_all(const std::string& path) const {
  std::vector<Found> others;
  for (const ForeignRoot& root : foreign_roots_)
    if (auto found = regular_file(proc_path(root.pid, "root") + path, true))
      others.push_back(std::move(*found));
  const auto [begin, end] = foreign_mappings_.equal_range(path);
  for (auto mapped = begin; mapped != end; ++mapped) others.push_back(mapped->second);
  const auto here = regular_file(path, false);
  if (!here && others.empty()) return std::nullopt;
  Found first = here ? *here : others.front();
  for (const Found& other : others)
    if (other.identity != first.identity)
      return fail(ErrorKind::ambiguous, path + ": different files in several mount namespaces");
  return first;
}

// As `resolve` shows it.
std::string shown_as_resolve(const symbolize::Function& function) {
  std::string text = function.name() + function.version;
  if (function.offset != 0) text += fmt::format("+{:#x}", function.offset);
  return text;
}

} // namespace

std::vector<std::string> symbolize_probes(std::span<InstalledProbe> probes) {
  InventoryFiles files(probes);
  std::map<std::string, std::shared_ptr<const MappedFile>> opened; // null if it cannot be read
  symbolize::ModuleCache modules;
  std::map<std::string, std::size_t> ambiguous; // by file, probes in it
  for (InstalledProbe& probe : probes) {
    const auto found_file = files.find(probe);
    if (!found_file) ++ambiguous[probe.file];
    if (!found_file || !*found_file) continue; // the file may be gone
    const InventoryFiles::Found& file = **found_file;
    if (file.elsewhere) probe.file = file.path;
    const auto [known, is_new] = opened.try_emplace(file.path);
    if (is_new)
      if (auto mapped = MappedFile::open(file.path); mapped && mapped->identity() == file.identity)
        known->second = std::make_shared<const MappedFile>(std::move(*mapped));
    if (known->second == nullptr) continue;
    const auto place = modules.find(known->second, file.path, probe.offset);
    if (!place) continue;
    probe.entry = place->module->entry();
    const auto frame = place->module->frame(place->address);
    if (frame->function) probe.symbol = shown_as_resolve(*frame->function);
  }
  std::vector<std::string> warnings;
  warnings.reserve(ambiguous.size());
  for (const auto& [file, count] : ambiguous)
    warnings.push_back(fmt::format(
        "{}: {} without a symbol: mount namespaces have different files at this path, and the "
        "kernel does not tell which of them is probed",
        file, count == 1 ? "1 probe is shown" : fmt::format("{} probes are shown", count)));
  return warnings;
}

} // namespace uprobectl
