// Whose descriptors keep BPF links and perf events alive.
#pragma once

#include "bpf/link_info.hpp"

#include <map>

namespace uprobectl {

struct HeldPerfProbe {
  pid_t holder = 0;
  HeldProbes probe; // its path resolved through the holder's descriptors
};

struct Holders {
  std::map<std::uint32_t, std::vector<pid_t>> links; // link id -> processes
  std::vector<HeldPerfProbe> perf_events;            // with a BPF program on them
  std::size_t unreadable = 0;                        // processes that could not be looked at
};

// "/proc/self/fd/N", under which a process gave the kernel an open file, turned into what that
// descriptor of it is; other paths, and descriptors that are gone, as they are.
std::string resolved_path(std::string path, pid_t process);

// Reads /proc/PID/fd and fdinfo of every process.
Holders find_holders();

} // namespace uprobectl
