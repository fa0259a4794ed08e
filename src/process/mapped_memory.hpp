// SPDX-License-Identifier: Apache-2.0
// Whether addresses of processes are mapped, for many questions in a row.
#pragma once

#include "uprobectl/process.hpp"

#include <chrono>
#include <map>

namespace uprobectl {

// Keeps the mappings of the processes that were asked about, and reads those of a process again
// after a second, or after 100 ms if an address is not in them.
class MappedMemory {
public:
  // Whether the address was recently in a readable mapping of the process. False for processes that
  // have ended. `pid` is one of this pid namespace.
  bool contains(pid_t pid, std::uint64_t address);

private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::vector<Mapping> mappings; // ascending
    Clock::time_point read_at;
  };
  std::map<pid_t, Known> processes_;
};

} // namespace uprobectl
