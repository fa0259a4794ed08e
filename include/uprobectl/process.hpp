// Processes as /proc shows them: who exists, what they map, and who could ever reach a probe.
// Source: Linux Documentation/filesystems/proc.rst (maps, map_files, comm).
#pragma once

#include "uprobectl/base.hpp"

#include <sys/types.h>

namespace uprobectl {

// One line of /proc/PID/maps that has a file behind it.
struct Mapping {
  std::uint64_t start = 0; // run-time addresses, [start, end)
  std::uint64_t end = 0;
  FileOffset offset;
  bool executable = false;
  FileIdentity
      identity;     // device as the kernel prints it; may differ from st_dev on overlayfs, btrfs
  std::string path; // as the kernel prints it, without " (deleted)"
  bool deleted = false;
};

// Takes the text of a maps file; lines that are no file mapping are left out.
std::vector<Mapping> parse_maps(std::string_view text);

// not_found if the process does not exist, not_permitted if its maps may not be read.
Result<std::vector<Mapping>> mappings_of(pid_t pid);

// Every process id in /proc, ascending.
std::vector<pid_t> all_processes();

// /proc/PID/comm without its newline; nothing if the process is gone.
std::optional<std::string> command_name(pid_t pid);

// A file that is probed, and what is asked about it.
struct ProbedFile {
  std::string real_path;
  FileIdentity identity;
  FileOffset offset; // the page with this offset must be mapped executable for a probe to fire
};

// Why a probe at a place can or cannot fire, over the given processes or (none given) all.
struct MappingSurvey {
  std::vector<pid_t> executable;  // map the probed page of this inode executable
  std::vector<pid_t> other_inode; // map another inode at the same path: replaced since they started
  std::size_t unreadable = 0;     // processes whose maps could not be read
};
std::vector<MappingSurvey> survey_mappings(std::span<const ProbedFile> files,
                                           std::span<const pid_t> pids);

} // namespace uprobectl
