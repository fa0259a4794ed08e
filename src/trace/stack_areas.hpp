// SPDX-License-Identifier: Apache-2.0
// Finds the mappings of processes that stacks lie in.
#pragma once

#include "events/call_tree.hpp"
#include "uprobectl/process.hpp"

#include <chrono>
#include <map>

namespace uprobectl::trace {

// Returns the mapping that contains the address. It is one stack if it is the main thread's, or if
// an inaccessible mapping (a guard) ends where it begins, as below the stacks that pthread_create()
// allocates. `mappings` ascend.
std::optional<events::StackArea> find_stack_area(std::span<const process::Mapping> mappings,
                                                 std::uint64_t address);

// Keeps the mappings of processes. Reads them again after a second, and for an address that is not
// in them but was used later.
class StackAreas {
public:
  // `used_ns`: CLOCK_MONOTONIC. Returns nullopt if no known mapping contains the address, as in a
  // process that ended before it was read.
  std::optional<events::StackArea> find(std::uint32_t pid, std::uint64_t address,
                                        std::uint64_t used_ns);

private:
  struct Known {
    std::vector<process::Mapping> mappings;
    std::chrono::steady_clock::time_point read_at;
  };
  std::map<std::uint32_t, Known> processes_;
};

} // namespace uprobectl::trace
