// SPDX-License-Identifier: Apache-2.0
// Whether addresses of processes are mapped, for many questions in a row.
#pragma once

#include "uprobectl/process.hpp"

#include <chrono>
#include <map>

namespace uprobectl::process {

// Keeps the mappings of the processes that were asked about. Reads the mappings of a process again
// after a second, and for an address that is not in them but was used later.
class MappedMemory {
public:
  using Clock = std::chrono::steady_clock;

  // Whether the address that the process used at that time is in a readable mapping, or was within
  // the last second. False for processes that have ended. `pid` is one of this pid namespace.
  bool contains(pid_t pid, std::uint64_t address, Clock::time_point used);

private:
  struct Known {
    std::vector<Mapping> mappings; // ascending
    Clock::time_point read_at;
  };
  std::map<pid_t, Known> processes_;
};

} // namespace uprobectl::process
