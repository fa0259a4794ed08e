// SPDX-License-Identifier: Apache-2.0
// Reads files of /proc and /sys, and finds files that other processes map.
#pragma once

#include "uprobectl/process.hpp"
#include "uprobectl/util.hpp"

#include <functional>
#include <sys/types.h>

namespace uprobectl::process {

// "/proc/PID/NAME".
std::string proc_path(pid_t pid, std::string_view name);

// Returns "process 4711 (app)", or "process 4711" if it has ended.
std::string describe_process(pid_t pid);

// Returns the thread in whose folder of /proc the memory, the files, the root folder and the
// namespaces of the process are: the main thread or, if that has ended before others, one of these.
// Returns the pid if all have ended.
pid_t find_live_thread(pid_t pid);
// "/proc/TID/NAME" of that thread. The kernel does not list such a folder, but opens it.
std::string live_path(pid_t pid, std::string_view name);

// Removes what the kernel adds to the path of a deleted file (Linux fs/d_path.c), and returns
// whether it was there.
bool take_deleted_mark(std::string_view& path);

// Reads the whole file. Files of /proc and /sys have no useful st_size.
Result<std::string> read_pseudo_file(const std::string& path);

// Reads the whole file. Does not say why it failed.
std::optional<std::string> try_read_pseudo_file(const std::string& path);

// Parsers of /proc/PID/stat and status (Linux Documentation/filesystems/proc.rst).

// Returns the parent from /proc/PID/stat, "PID (COMM) STATE PPID …". COMM may contain spaces,
// parentheses and newlines, so it ends at the last parenthesis.
std::optional<pid_t> parse_parent(std::string_view stat);
// Returns field 22, the start time in clock ticks since boot.
std::optional<std::uint64_t> parse_start_time(std::string_view stat);

// Return the first number of "Uid:" (the real user id) and the last one of "NSpid:" (the pid in the
// innermost namespace) from /proc/PID/status.
std::optional<uid_t> parse_user(std::string_view status);
std::optional<pid_t> parse_innermost_pid(std::string_view status);

// Returns the state from /proc/PID/stat, such as 'R'.
std::optional<char> parse_state(std::string_view stat);

// Whether the thread has ended, as a main thread can before the others.
bool has_thread_ended(pid_t pid, pid_t tid);

// Returns a thread of the process that has not ended, other than its main thread: a process goes on
// until its last thread has ended. `has_ended`: threads that are known to have, though they may
// still be listed as running.
std::optional<pid_t> find_other_thread(
    pid_t pid, const std::function<bool(pid_t)>& has_ended = [](pid_t) { return false; });

// Returns the descendants of `ancestor`, ascending, from pairs of process and parent.
std::vector<pid_t> descendants(pid_t ancestor, std::span<const std::pair<pid_t, pid_t>> parents);

// Describes the access to a mapping besides Mapping::readable and executable.
struct MappingAccess {
  bool writable = false;
  bool shared = false; // MAP_SHARED

  // Whether the kernel puts breakpoints of uprobes there when it maps the memory or attaches a
  // probe (Linux kernel/events/uprobes.c, valid_vma()). Those that are there already stay.
  bool takes_breakpoints() const { return !writable && !shared; }
};
// Reads all mappings, with the access to each.
Result<std::vector<Mapping>> read_all_mappings(pid_t pid, std::vector<MappingAccess>& access);

// Returns the signal that has ended the process of a pidfd (0: it exited), also if it is not a
// child. Returns nullopt while it runs or waits to be reaped, and before Linux 6.15.
std::optional<int> read_end_signal(int pidfd);

// Access to the file of a mapping of another process.

// How well a file matches a mapping. On overlayfs and btrfs the device in maps differs from st_dev:
// there an equal inode at the same path must suffice.
enum class FileMatch : std::uint8_t { none, inode, device_and_inode };
FileMatch match_file(const FileIdentity& file, const Mapping& mapping);
// Matches the file at the path; returns none if it is not a regular file.
FileMatch match_file_at(const std::string& path, const Mapping& mapping);

// A path where the mapped file may be. It is accepted if the match is at least `min_match`.
struct PathCandidate {
  std::string path;
  FileMatch min_match = FileMatch::device_and_inode;
};

// Returns "/proc/PID/map_files/START-END", which refers to the mapped file even if it is deleted.
// Only root can open it.
std::string map_files_path(pid_t pid, const Mapping& mapping);

// Whether the process is in this program's mount namespace. Returns nullopt if it has ended.
std::optional<bool> shares_mount_namespace(pid_t pid);

// Returns the paths to try for a mapped file, in preference order: below /proc/PID/root, and the
// path itself. A process in another mount namespace can map any path, so the path itself is
// accepted only if device and inode match. `shared`: what shares_mount_namespace() returned.
std::vector<PathCandidate> path_candidates(pid_t pid, const Mapping& mapping,
                                           std::optional<bool> shared);
// Whether the mapped file can be opened by its path, also after the process has ended.
bool is_reachable_by_path(const Mapping& mapping);

} // namespace uprobectl::process
