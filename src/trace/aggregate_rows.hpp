// SPDX-License-Identifier: Apache-2.0
// The rows of counts and histograms: of a run, for which the kernel counts, and of saved events.
#pragma once

#include "output/output.hpp"
#include "trace/kept_stacks.hpp"
#include "trace/trace.hpp"

#include <map>

namespace uprobectl::trace {

// When what a row shows was counted: CLOCK_MONOTONIC.
struct CountedTime {
  std::uint64_t since_ns = 0;
  std::uint64_t until_ns = 0;
};

// Sets the times of a CountRecord or HistogramRecord.
void set_time(auto& record, const AggregateSpec& spec, const CountedTime& time) {
  record.since_ns = time.since_ns;
  record.time_ns = time.until_ns;
  record.is_interval = spec.interval.has_value();
}

struct CountRow {
  std::size_t probe = 0; // its number in the run
  std::size_t stack = 0; // numbers rows of stacks
  output::CountRecord record = {};
};
// Write the records, those with the most hits first as far as --top or counts ask for it; otherwise
// in the order of the request. They set the times.
void write_counts(std::vector<CountRow> rows, const AggregateSpec& spec, const CountedTime& time,
                  output::Output& output);
void write_histograms(std::vector<output::HistogramRecord> records, const AggregateSpec& spec,
                      const CountedTime& time, output::Output& output);

// The rows of counts by values (--by). Borrows the points.
class GroupRows {
public:
  struct Row {
    const resolve::ProbePoint* point = nullptr; // null for records of a user's program
    std::string map = {};                       // that sent these records
    std::size_t probe = 0;                      // its number in the run
    bool on_return = false;
    std::vector<events::ArgumentValue> values;   // as group_values() returns them
    std::shared_ptr<const KeptStack> stack = {}; // if counted by it; null: none
    output::StackCompleteness completeness = output::StackCompleteness::complete;
    group_sums sums = {};
    std::string span = {}; // the spans of this name
    bool are_open = false; // which have not ended
  };

  static constexpr std::size_t default_max_rows = 1U << 18;

  GroupRows() = default;
  explicit GroupRows(std::size_t max_rows) : max_rows_(max_rows) {}

  // Adds the sums to those of a row that shows the same. If there are too many rows, report() says
  // how many hits were left out.
  void add(Row row);
  bool empty() const { return rows_.empty(); }
  // Writes a record for each row: the highest count, or of open spans the largest sum, first.
  void report(const events::GroupSpec& groups, const AggregateSpec& spec, const CountedTime& time,
              output::Output& output) const;

private:
  std::size_t max_rows_ = default_max_rows;
  std::map<std::string, Row> rows_; // by a text that is equal for rows that show the same
  std::uint64_t left_out_ = 0;      // hits
};

} // namespace uprobectl::trace
