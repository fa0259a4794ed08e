// SPDX-License-Identifier: Apache-2.0
// The rows of counts and histograms: of what the kernel counts, and of events that are counted as
// they come, or from a saved run.
#pragma once

#include "output/output.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/kept_stacks.hpp"
#include "trace/trace.hpp"

#include <map>

namespace uprobectl::trace {

// When what a row shows was counted: CLOCK_MONOTONIC.
struct CountedTime {
  std::uint64_t since_ns = 0;
  std::uint64_t until_ns = 0;
};

// What the hits of a row have in common, and their sums. Borrows the point.
struct CountRow {
  const resolve::ProbePoint* point = nullptr; // null for records of a user's program
  std::string map = {};                       // that sent these records
  std::size_t probe = 0;                      // its number in the run
  bool on_return = false;
  std::optional<std::uint32_t> pid = {};          // if processes are counted separately
  std::string comm = {};                          // of pid, unless its name is known
  std::vector<events::ArgumentValue> values = {}; // as group_values() returns them
  std::shared_ptr<const KeptStack> stack = {};    // if counted by it; null: none
  output::StackCompleteness completeness = output::StackCompleteness::complete;
  group_sums sums = {};
  std::string span = {}; // the spans of this name
  bool are_open = false; // which have not ended
};

class CountRows {
public:
  static constexpr std::size_t default_max_rows = 1U << 18;

  CountRows() = default;
  explicit CountRows(std::size_t max_rows) : max_rows_(max_rows) {}

  // Adds the sums to those of a row that shows the same. If there are too many rows, report() says
  // how many hits were left out.
  void add(CountRow row);
  // Gives the stacks of all rows to the recorders, which have not got them with the hits.
  void record_stacks(output::Output& output) const;
  // Writes a record for each row: the highest count, or of open spans the largest sum, first, as
  // far as --top asks for it.
  void report(const events::GroupSpec& groups, const AggregateSpec& spec, const CountedTime& time,
              output::Output& output, const ProcessNameLookup& find_name = {}) const;

private:
  // Equal for rows that show the same, in the order in which rows of equal counts are shown.
  struct Key {
    std::string map;
    std::size_t probe;
    bool on_return;
    std::optional<std::uint32_t> pid;
    std::string span;
    std::string values;
    output::StackCompleteness completeness;
    std::string_view stack; // its text, which the row owns: addresses differ between processes

    auto operator<=>(const Key&) const = default;
  };

  std::size_t max_rows_ = default_max_rows;
  std::map<Key, CountRow> rows_;
  std::uint64_t left_out_ = 0; // hits
};

// Writes the records, those with the most hits first as far as --top asks for it; otherwise in
// their order. Sets their times.
void write_histograms(std::vector<output::HistogramRecord> records, const AggregateSpec& spec,
                      const CountedTime& time, output::Output& output);

} // namespace uprobectl::trace
