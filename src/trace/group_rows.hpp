// SPDX-License-Identifier: Apache-2.0
// The rows of counts by values (--by): of a run, whose groups the kernel counts, and of saved
// events.
#pragma once

#include "output/output.hpp"
#include "trace/trace.hpp"

#include <map>

namespace uprobectl {

// Borrows the points.
class GroupRows {
public:
  struct Row {
    const ProbePoint* point = nullptr; // never null
    std::size_t probe = 0;             // its number in the run
    bool on_return = false;
    std::vector<ArgumentValue> values;       // as group_values() returns them
    std::optional<unwind::Stack> stack = {}; // if counted by it
    StackCompleteness completeness = StackCompleteness::complete;
    group_sums sums = {};
  };

  // Adds the sums to those of a row that shows the same.
  void add(Row row);
  // Writes a record for each row, the highest count first. The times are CLOCK_MONOTONIC.
  void report(const GroupSpec& groups, const AggregateSpec& spec, std::uint64_t since_ns,
              std::uint64_t until_ns, Output& output) const;

private:
  std::map<std::string, Row> rows_; // by a text that is equal for rows that show the same
};

} // namespace uprobectl
