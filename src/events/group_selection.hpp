// SPDX-License-Identifier: Apache-2.0
// Chooses what a record contains if hits are counted by values (GroupSpec).
#pragma once

#include "events/plan.hpp"

#include <set>

namespace uprobectl {

// Assigns readings in order, integers first, because the lengths of buffers are among them.
std::vector<PlannedArgument> assign_readings(std::vector<PlannedArgument> planned);

// Returns how a value takes part in counts by values: enum group_part.
record_u8 group_part_of(const GroupSpec& groups, const PlannedArgument& planned,
                        const reading& how);

// Selects the values by which hits are counted, and the one that is summed.
class GroupSelection {
public:
  explicit GroupSelection(const GroupSpec& groups); // borrowed

  // Keeps the selected arguments of a format and those that they need. Fails with `usage` if the
  // value that is summed is not a number.
  Result<RecordFormat> select(RecordFormat format);
  // Call it after all formats: fails with `not_found` if a value is that of no probe.
  Result<void> check() const;

private:
  Result<void> check_summed(const PlannedArgument& summed) const;

  const GroupSpec& groups_;
  std::vector<std::string> names_;
  std::vector<bool> found_; // by the index in names_: at any probe
  std::set<std::string> offered_;
};

} // namespace uprobectl
