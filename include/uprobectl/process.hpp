// SPDX-License-Identifier: Apache-2.0
// Processes as /proc shows them: who exists, what they map, and who could ever reach a probe.
// Source: Linux Documentation/filesystems/proc.rst (maps, map_files, comm).
#pragma once

#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl {

// One line of /proc/PID/maps.
struct Mapping {
  std::uint64_t start = 0; // run-time addresses, [start, end)
  std::uint64_t end = 0;
  FileOffset offset;
  bool executable = false;
  FileIdentity
      identity;     // device as the kernel prints it; may differ from st_dev on overlayfs, btrfs
  std::string path; // as the kernel prints it, without " (deleted)"; "[stack]", empty, … for those
                    // of no file
  bool deleted = false;
};

// Takes the text of a maps file; lines that are no file mapping are left out.
std::vector<Mapping> parse_maps(std::string_view text);
// The same with the mappings of no file, and those whose inode is not told.
std::vector<Mapping> parse_all_maps(std::string_view text);

// not_found if the process does not exist, not_permitted if its maps may not be read.
Result<std::vector<Mapping>> mappings_of(pid_t pid);
// With the mappings of no file.
Result<std::vector<Mapping>> all_mappings_of(pid_t pid);
// When the process began, in clock ticks since boot: a pid that is used again has another one.
std::optional<std::uint64_t> start_time_of(pid_t pid);

// Fails if /proc is not mounted: then no process can be seen, and no file be handed to the kernel
// by its descriptor.
Result<void> check_proc_mounted();

// Every process id in /proc, ascending.
std::vector<pid_t> all_processes();

// /proc/PID/comm without its newline; nothing if the process is gone.
std::optional<std::string> command_name(pid_t pid);

// Whether a process goes by this name: its comm, the base name of its argv[0], or the whole of that
// (Android's process names, "com.foo:remote"). `arguments` is the text of /proc/PID/cmdline. The
// kernel cuts comm to 15 bytes, so a longer name is never one.
bool goes_by_name(std::string_view name, std::string_view comm, std::string_view arguments);

// Of processes, ascending; they may have ended, and others begun, when this returns. A process that
// is just being executed has no arguments yet, and Android sets them after comm.
std::vector<pid_t> processes_named(std::string_view name);
std::vector<pid_t> descendants_of(pid_t pid); // children, their children, …; without itself
std::vector<pid_t> processes_of_user(uid_t user);

// Nothing if the process is gone.
bool is_named(pid_t pid, std::string_view name);
std::optional<uid_t> user_of(pid_t pid); // the real one
// The pid that it has for itself, in the innermost of its pid namespaces (Linux 4.1).
std::optional<pid_t> pid_in_namespace(pid_t pid);
std::optional<FileIdentity> executable_of(pid_t pid); // the file that it runs
// Whether the pids that are seen here are those that the kernel itself goes by.
bool in_initial_pid_namespace();
// As the link in /proc names it, "mnt:[4026531840]"; nothing also where this user may not know.
std::optional<std::string> mount_namespace_of(pid_t pid);

// A file that is probed, and what is asked about it.
struct ProbedFile {
  std::string real_path;
  FileIdentity identity;
  FileOffset offset; // the page with this offset must be mapped executable for a probe to fire
};

// A process that maps a file like the probed one executable, from another path.
struct OtherCopy {
  pid_t pid = 0;
  std::string path; // as in its mappings
  auto operator<=>(const OtherCopy&) const = default;
};

// Why a probe at a place can or cannot fire, over the given processes or (none given) all.
struct MappingSurvey {
  std::vector<pid_t> executable;  // map the probed page of this inode executable
  std::vector<pid_t> other_inode; // map another inode at the same path
  std::vector<pid_t> elsewhere;   // those of them in another mount namespace than ours: no wonder;
                                  // the others' file was replaced since they mapped it
  std::vector<OtherCopy> other_copies = {}; // the first `max_copies`, whatever else they map
  std::size_t unreadable = 0;               // processes whose maps could not be read

  static constexpr std::size_t max_copies = 16;
};
std::vector<MappingSurvey> survey_mappings(std::span<const ProbedFile> files,
                                           std::span<const pid_t> pids);

} // namespace uprobectl
