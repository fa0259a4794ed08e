// SPDX-License-Identifier: Apache-2.0
// Counts by values (--by): which values are the key of a group, and what is summed for each group.
#pragma once

#include "bpf/record.h"
#include "events/arguments.hpp"
#include "events/event_values.hpp"
#include "events/events.hpp"

namespace uprobectl::events {

// A value by which hits are counted.
struct GroupValue {
  std::string text; // as typed
  // The built-in variable that the text means; nullopt: an argument, a path or `ret`.
  std::optional<group_feature> built_in = {};
  bool at_end = false; // `built_in` is that of the hit that ended a span: "to.tid"
};

// How hits are counted by values. Without values they are not.
struct GroupSpec {
  std::vector<GroupValue> by;
  std::optional<SummedValue> measured = {};    // the value that is summed
  std::optional<call_time> measured_time = {}; // the time of calls that is summed instead

  bool has(group_feature variable) const;
  bool reads_arguments() const; // values of the function other than the result
  bool reads_result() const;    // `ret`, `failed` or `errno`
  // The names of `by`, without built-in variables, and of what is measured.
  std::vector<std::string> names() const;
};

constexpr std::size_t max_group_values = 8;

// Returns the names that --by knows at any probe: built-in variables, and the result.
std::vector<std::string> group_names();

// Parses "a,b". A name of `declared` is that argument, even if a built-in variable has it, too.
// Fails with `usage`.
Result<GroupSpec> parse_groups(std::string_view text, std::span<const ArgumentList> declared);

// Fails if none of the types, which are all that the records of a run may have, has a number of
// the name of an operand. Succeeds if no types are known. `option`: begins the error.
Result<void> check_record_sum(std::string_view option, const SummedValue& value,
                              std::span<const values::ValueType> records);
// Checks all values of the groups in the same way. Hits can be counted by values of any type.
Result<void> check_record_groups(const GroupSpec& groups,
                                 std::span<const values::ValueType> records);

// Returns how many bytes of a string can be in a key with these values.
std::uint32_t max_group_string(const GroupSpec& groups);

// Returns the average of the measured values. There must be at least one.
double average_of(const group_sums& sums);

// Returns the values of a group, in the order of GroupSpec::by; borrows the names. `event` is its
// decoded key. A stack is not among them.
std::vector<ArgumentValue> group_values(const GroupSpec& groups, const Event& event,
                                        EventValues& known);

} // namespace uprobectl::events
