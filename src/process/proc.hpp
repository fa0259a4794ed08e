// SPDX-License-Identifier: Apache-2.0
// The files of /proc and /sys, and of whatever stands in for them in a test.
#pragma once

#include "uprobectl/process.hpp"
#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl {

// "/proc/PID/NAME".
std::string proc_path(pid_t pid, std::string_view name);

// The whole text. Such files have no size that stat would tell: it is read until its end.
Result<std::string> read_pseudo_file(const std::string& path);

// For whom it makes no difference why there is none.
std::optional<std::string> try_read_pseudo_file(const std::string& path);

// The files of /proc/PID that say who a process is, taken apart.
// Source: Linux Documentation/filesystems/proc.rst (stat, status).

// The parent in a line of /proc/PID/stat, "PID (COMM) STATE PPID …". COMM may hold anything,
// spaces, parentheses and newlines included: it ends at the last parenthesis.
std::optional<pid_t> parse_parent(std::string_view stat);
// Its 22nd field: when the process began, in clock ticks since boot.
std::optional<std::uint64_t> parse_start_time(std::string_view stat);

// Of /proc/PID/status: the first number of the line "Uid:", the last one of "NSpid:".
std::optional<uid_t> parse_user(std::string_view status);
std::optional<pid_t> parse_innermost_pid(std::string_view status);

// The processes below `ancestor`, ascending, by (process, parent).
std::vector<pid_t> descendants(pid_t ancestor, std::span<const std::pair<pid_t, pid_t>> parents);

// How the file of a mapping of another process is reached from here.

// On overlayfs and btrfs the device in maps differs from the one that stat reports. There an equal
// inode at the same path has to be enough.
enum class FileMatch : std::uint8_t { none, inode, device_and_inode };
FileMatch match_file(const FileIdentity& file, const Mapping& mapping);
// The likeness of the file at the path; none if it is not a regular file.
FileMatch match_file_at(const std::string& path, const Mapping& mapping);

// A path where the mapped file may be. It is accepted if the match is at least `min_match`.
struct PathCandidate {
  std::string path;
  FileMatch min_match = FileMatch::device_and_inode;
};

// "/proc/PID/map_files/…": leads to the mapped file itself, also to a deleted one, for root.
std::string map_files_path(pid_t pid, const Mapping& mapping);

// Whether paths mean the same to the process and to this program. Nullopt if it has ended.
std::optional<bool> shares_mount_namespace(pid_t pid);

// By path, best first: below the root folder of the process, and as this program sees the path. A
// process in another mount namespace chooses its paths, so here only the same file is taken for
// one of its own.
std::vector<PathCandidate> path_candidates(pid_t pid, const Mapping& mapping,
                                           std::optional<bool> shared);
// Whether the mapped file can still be opened by its path when the process has ended.
bool is_reachable_by_path(const Mapping& mapping);

} // namespace uprobectl
