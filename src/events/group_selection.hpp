// SPDX-License-Identifier: Apache-2.0
// Chooses what a record contains if hits are counted by values (GroupSpec).
#pragma once

#include "events/value_plan.hpp"

#include <set>

namespace uprobectl {

// Selects the values by which hits are counted, and the one that is summed.
class GroupSelection {
public:
  explicit GroupSelection(const GroupSpec& groups); // borrowed

  // Keeps the selected arguments and those that they need. `typed`: the values of a point whose
  // types are known, which have all of them; null for other points. Fails with `usage` if the value
  // that is summed is not a number.
  Result<DeclaredValues> select(DeclaredValues declared, const ValuePlan* typed);
  // Call it after all formats: fails with `not_found` if a value is that of no probe.
  Result<void> check() const;

private:
  Result<void> check_summed(const ArgumentSpec& summed) const;

  const GroupSpec& groups_;
  std::vector<std::string> names_;
  std::vector<bool> found_; // by the index in names_: at any probe
  std::set<std::string> offered_;
};

} // namespace uprobectl
