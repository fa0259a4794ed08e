// How the file of a mapping of another process is reached from here.
#pragma once

#include "uprobectl/process.hpp"

namespace uprobectl {

// On overlayfs and btrfs the device in maps differs from the one that stat reports. There an equal
// inode at the same path has to be enough.
enum class Likeness : std::uint8_t { none, inode, whole };
Likeness likeness(const FileIdentity& file, const Mapping& mapping);
// The likeness of the file at the path; none if it is not a regular file.
Likeness likeness_at(const std::string& path, const Mapping& mapping);

// A path where the mapped file may be: the file there must be at least `least` like it.
struct WayToFile {
  std::string path;
  Likeness least = Likeness::whole;
};

// "/proc/PID/map_files/…": leads to the mapped file itself, also to a deleted one, for root.
std::string path_of_mapping(pid_t pid, const Mapping& mapping);

// Whether paths mean the same to the process and to this program. Nullopt if it has ended.
std::optional<bool> shares_mounts(pid_t pid);

// By path, best first: below the root folder of the process, and as this program sees the path. A
// process in another mount namespace chooses its paths, so here only the same file is taken for
// one of its own.
std::vector<WayToFile> ways_by_path(pid_t pid, const Mapping& mapping, std::optional<bool> shared);
// Whether the mapped file can still be opened by its path when the process has ended.
bool is_reachable_by_path(const Mapping& mapping);

} // namespace uprobectl
