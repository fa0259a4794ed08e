// SPDX-License-Identifier: Apache-2.0
// What a process had mapped at the time of a stack, as far as it can be known from what
// /proc/PID/maps says later. A library may have been loaded in between, at the address of another
// one that was unloaded.
#pragma once

#include "uprobectl/process.hpp"

#include <span>

namespace uprobectl::unwind {

// All lists are sorted by address, and without overlaps.
struct PastMappings {
  std::vector<process::Mapping> mappings; // at the time of the stack
  // The executable ones among them that the process does not have any more.
  std::vector<process::Mapping> gone;
  // Executable mappings that the process has now, and that replaced others. They are not among
  // `mappings`, nor are the others: it is not known which of them the process had.
  std::vector<process::Mapping> unclear;
};

// `before`: the mappings up to the time of the stack, as known from an earlier reading and from
// records. `now`: those of /proc. `later`: executable mappings that were recorded after that time.
PastMappings find_past_mappings(std::span<const process::Mapping> before,
                                std::vector<process::Mapping> now,
                                std::span<const process::Mapping> later);

// Removes a range of addresses; keeps the rest of partly covered mappings.
void cut_range(std::vector<process::Mapping>& mappings, std::uint64_t start, std::uint64_t end);
// Replaces what the mapping overlaps.
void insert_mapping(std::vector<process::Mapping>& mappings, const process::Mapping& mapping);

} // namespace uprobectl::unwind
