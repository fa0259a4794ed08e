// SPDX-License-Identifier: Apache-2.0
// Reads processes and their mappings from /proc, and surveys which processes map probed files.
// Source: Linux Documentation/filesystems/proc.rst (maps, map_files, comm).
#pragma once

#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl::process {

// One line of /proc/PID/maps.
struct Mapping {
  std::uint64_t start = 0; // run-time addresses, [start, end)
  std::uint64_t end = 0;
  FileOffset offset;
  bool executable = false;
  // The device as the kernel prints it, which may differ from st_dev on overlayfs and btrfs.
  FileIdentity identity;
  // Without " (deleted)". A mapping that is not of a file has a name such as "[stack]", or none.
  std::string path;
  bool deleted = false;
  bool readable = true;
};

// Parses the text of a maps file and returns the file mappings.
std::vector<Mapping> parse_maps(std::string_view text);
// Also returns mappings that are not of a file or have no inode number.
std::vector<Mapping> parse_all_maps(std::string_view text);

// Reads the file mappings of a process. Errors: not_found if it does not exist; not_permitted if
// its maps are not readable.
Result<std::vector<Mapping>> read_mappings(pid_t pid);
// Also returns mappings that are not of a file.
Result<std::vector<Mapping>> read_all_mappings(pid_t pid);
// Returns when the process started, in clock ticks since boot. Distinguishes processes that had the
// same pid.
std::optional<std::uint64_t> process_start_time(pid_t pid);

// Fails if /proc is not mounted. Without it processes cannot be listed and files cannot be passed
// to the kernel as /proc/self/fd/N.
Result<void> check_proc_mounted();

// Returns every process id in /proc, ascending.
std::vector<pid_t> all_processes();

// Returns /proc/PID/comm without its newline; nullopt if the process has ended.
std::optional<std::string> read_comm(pid_t pid);

// Whether the name is the comm of a process, its argv[0] (as Android's process names,
// "com.foo:remote") or the base name of that. `arguments` is the text of /proc/PID/cmdline. The
// kernel truncates comm to 15 bytes, so a longer name can only match argv[0].
bool matches_process_name(std::string_view name, std::string_view comm, std::string_view arguments);

// These return pids, ascending. Processes can start and end meanwhile. During execve a process has
// no arguments yet, and Android sets its argv[0] after comm.
std::vector<pid_t> find_named_processes(std::string_view name);
std::vector<pid_t> find_descendants(pid_t pid); // children, their children, …; without itself
std::vector<pid_t> find_user_processes(uid_t user);

// These return nullopt (is_process_named(): false) if the process has ended.
bool is_process_named(pid_t pid, std::string_view name);
std::optional<uid_t> process_user(pid_t pid); // the real user id
// The pid in the innermost pid namespace of the process, as getpid() returns it (Linux 4.1).
std::optional<pid_t> pid_in_namespace(pid_t pid);
std::optional<FileIdentity> process_executable(pid_t pid); // /proc/PID/exe
// Returns the mount namespace of a process, "mnt:[4026531840]"; nullopt if it has ended or this
// user may not read it.
std::optional<std::string> read_mount_namespace(pid_t pid);

// A file and the offset of one probe in it, for survey_mappings().
struct ProbedFile {
  std::string real_path;
  FileIdentity identity;
  FileOffset offset; // of the probe, which fires only if this page is mapped executable
};

// An executable mapping of a copy of the probed file: a file with the same name at another path.
struct MappedCopy {
  pid_t pid = 0;
  std::string path; // as in its mappings
  auto operator<=>(const MappedCopy&) const = default;
};

// The processes that map a probed file, which explains why a probe can or cannot fire.
struct MappingSurvey {
  std::vector<pid_t> executable;  // map the probed page of this inode executable
  std::vector<pid_t> other_inode; // map another inode at the same path
  // The members of other_inode that are in another mount namespace, where the path is another file.
  // For the other members, the file was replaced after they mapped it.
  std::vector<pid_t> other_mount_namespace;
  std::vector<MappedCopy> other_copies = {}; // the first `max_copies`
  std::size_t unreadable = 0;                // processes whose maps could not be read

  static constexpr std::size_t max_copies = 16;
};
// Surveys the given processes, or all if none are given. Returns one result for each file.
std::vector<MappingSurvey> survey_mappings(std::span<const ProbedFile> files,
                                           std::span<const pid_t> pids);

} // namespace uprobectl::process
