// SPDX-License-Identifier: Apache-2.0
// Lays out the records of a run, and finds what the built-in program must know about all plans
// before it is loaded.
#pragma once

#include "bpf/record.h"
#include "events/prepared.hpp"

#include <span>
#include <vector>

namespace uprobectl::events {

// Sets the defaults of the plan's readings that are 0, so that equal plans have equal bytes.
void complete_readings(point_plan& plan);
void complete_term(PreparedTerm& term, const point_plan& plan); // the same for a filter

// Returns how many bytes a record with this plan alone has, without the stack.
std::size_t record_bytes(const point_plan& plan, bool registers);

// Which waits are kept with their stacks.
enum class KeptWaits {
  none,
  longest, // in the record of their call
  each     // in a record of their own
};

// Assigns the offsets of bytes in the plans, and sets the sizes, offsets and maxima of the settings
// and their PLAN_FLAGS. Requires at least one plan, and in `settings` the other flags, stack_size
// and returns, which are cleared if the plans do not need them. `registers`: they are in each
// record of a hit.
void lay_out_records(builtin_settings& settings, std::vector<point_plan>& plans, bool registers,
                     KeptWaits waits);

// Whether a value is read through an address.
inline bool loads_memory(const reading& each) {
  return each.steps > 0 || each.form != READ_INTEGER;
}

// Whether hits read memory that may not be resident. The return address does not count, because the
// call has just stored it. Requires the settings of lay_out_records().
bool reads_memory(const builtin_settings& settings, std::span<const point_plan> plans,
                  std::span<const filter> filters);

} // namespace uprobectl::events
