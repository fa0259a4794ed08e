// SPDX-License-Identifier: Apache-2.0
// Rows of counts and histograms. Either the kernel counts the hits, or user space counts the events
// of the run or of a saved run.
#pragma once

#include "output/output.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/kept_stacks.hpp"
#include "trace/trace.hpp"

#include <map>

namespace uprobectl::trace {

// The time in which the hits of a row were counted: CLOCK_MONOTONIC.
struct CountedTime {
  std::uint64_t since_ns = 0;
  std::uint64_t until_ns = 0;
};

// One row of a report: the values that its hits have in common, and their sums. Borrows the point.
struct CountRow {
  const resolve::ProbePoint* point = nullptr; // null for records of a user's program
  std::string map = {};                       // the map that sent these records
  std::size_t probe = 0;                      // its number in the run
  bool on_return = false;
  std::optional<std::uint32_t> pid = {};          // if processes are counted separately
  std::string comm = {};                          // name of pid, used if ProcessNameLookup has none
  std::vector<events::ArgumentValue> values = {}; // as group_values() returns them
  std::shared_ptr<const KeptStack> stack = {};    // null if hits are not counted by stacks
  output::StackCompleteness completeness = output::StackCompleteness::complete;
  group_sums sums = {};
  std::string span = {}; // name of the counted spans; empty: hits are counted
  bool are_open = false; // the spans have not ended
};

class CountRows {
public:
  static constexpr std::size_t default_max_rows = 1U << 18;

  CountRows() = default;
  explicit CountRows(std::size_t max_rows) : max_rows_(max_rows) {}

  // Adds the sums to the row with the same values. If there are too many rows, report() says how
  // many hits were left out.
  void add(CountRow row);
  // Gives the stacks of all rows to the recorders, which did not get them with the hits.
  void record_stacks(output::Output& output) const;
  // Writes a record for each row, or for as many as --top says. The rows with the highest counts
  // come first, those of open spans with the largest sums.
  void report(
      const events::GroupSpec& groups, const AggregateSpec& spec, const CountedTime& time,
      output::Output& output,
      const ProcessNameLookup& find_name = [](pid_t) { return std::nullopt; }) const;

private:
  // Rows that show the same have equal keys. Rows of equal counts are shown in this order.
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

// Sets the times of the records and writes them in their order. With --top, writes the given number
// of records, those with the most hits first.
void write_histograms(std::vector<output::HistogramRecord> records, const AggregateSpec& spec,
                      const CountedTime& time, output::Output& output);

} // namespace uprobectl::trace
