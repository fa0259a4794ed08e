// SPDX-License-Identifier: Apache-2.0
// The values of an attach plan, without the debug information that describes them.
#pragma once

#include "plans/attach_plan.hpp"

#include <map>
#include <vector>

namespace uprobectl::trace {

// Copies the types to which the values of one file lead. Borrows the types of debug information.
class PlannedTypes {
public:
  // Pointers and references are followed `depth` times. Of types beyond that, and of those beyond a
  // limit, the plan has the name and size only.
  explicit PlannedTypes(int depth) : depth_(depth), waiting_(static_cast<std::size_t>(depth) + 1) {}

  void add(const plans::PlannedValues& values);
  bool is_empty() const { return types_.empty(); }
  // Makes the types of all values that were added.
  std::shared_ptr<const dwarf::DescribedTypes> make();
  // Makes values refer to these types instead. Requires that they were added.
  void move(plans::PlannedValues& values, const dwarf::DescribedTypes& types) const;

private:
  static constexpr int not_whole = -1; // the plan has the name and size only
  struct Entry {
    std::size_t index = 0;
    int left = not_whole; // how many pointers may still be followed
  };
  void add(const dwarf::Type& type, int left);
  Entry& entry_of(const dwarf::Type& type);
  void add_parts(const dwarf::TypeDescription& type, int left);
  void add_target(const dwarf::Type& target, int left);

  int depth_;
  std::map<const dwarf::Type*, Entry> entries_;
  std::vector<const dwarf::Type*> types_; // by index
  // Whole types, by Entry::left when they were added: out of date if that is greater by now.
  std::vector<std::vector<const dwarf::Type*>> waiting_;
};

} // namespace uprobectl::trace
