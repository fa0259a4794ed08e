// SPDX-License-Identifier: Apache-2.0
// Counts events, and makes histograms of their values, in user space, where the built-in program
// cannot do it: by unwound stacks, for records of users' programs, and for saved runs.
#pragma once

#include "events/event_values.hpp"
#include "output/output.hpp"
#include "trace/aggregate_rows.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/trace.hpp"

#include <map>

namespace uprobectl::trace {

// Says what user space counts and measures, and by which values.
struct TotalsSpec {
  AggregateSpec aggregates = {};
  bool by_process = false;       // counts each process separately
  bool by_stack = false;         // counts each stack separately
  events::GroupSpec groups = {}; // counts by these values instead
  std::optional<events::SummedValue> histogram_value = {};
  call_time histogram_time = TIME_LATENCY; // the value of histograms without histogram_value
  bool by_arrival = false; // intervals end with end_interval(), not by the times of events
};

// Fails if none of the types that the records may have has what is counted and measured.
// Succeeds if the types are unknown.
Result<void> check_record_totals(const TotalsSpec& totals,
                                 std::span<const values::ValueType> records);

class EventTotals {
public:
  // Borrows the arguments but `find_process_name`.
  EventTotals(const TotalsSpec& spec, events::EventValues& values,
              ProcessNameLookup find_process_name)
      : spec_(spec), values_(values), find_process_name_(std::move(find_process_name)),
        missing_(spec.groups.names()), names_(missing_),
        counts_arguments_(!spec.groups.by.empty() && spec.groups.reads_arguments()) {
    if (spec.histogram_value)
      for (std::string& each : spec.histogram_value->names()) missing_.push_back(std::move(each));
    read_names_ = missing_;
  }

  // Adds a point that the run records: it has a histogram, even without events.
  void add_point(const resolve::ProbePoint& point, std::uint32_t probe);
  // Begins to count. All times are CLOCK_MONOTONIC.
  void begin(std::uint64_t time_ns) { begin_ns_ = time_ns; }

  // Records of users' programs belong to no probe: they are counted by their maps. `completeness`:
  // of the stack of the event.
  void add(const events::Event& event,
           output::StackCompleteness completeness = output::StackCompleteness::complete);
  // Whether events are counted by values, or values are measured.
  bool reads_values() const { return !spec_.groups.by.empty() || !read_names_.empty(); }
  // Whether some of these values are known only when a call of this probe returns.
  bool needs_return(std::uint32_t probe) {
    return spec_.groups.reads_result() || values_.are_some_of_return(read_names_, probe);
  }
  // Counts a call of the tree. `event`: its entry or its exit, or the call as one event.
  void count_call(const events::Event& event) { count(event, false); }
  // Adds how long a call of the tree took to the histogram.
  void measure_call(const events::OpenCall& call, std::uint64_t end_ns);
  // Adds the event's value, or the requested time of its call, to the histogram.
  void measure(const events::Event& event);
  // Writes the intervals that no later event can belong to.
  void advance(std::uint64_t now_ns, output::Output& output);
  // Writes what was counted since the last interval or the beginning. Fails as finish().
  Result<void> end_interval(std::uint64_t now_ns, output::Output& output);
  // Writes the rest. Fails with `not_found` if events were counted by a value that none of them
  // has.
  Result<void> finish(std::uint64_t end_ns, output::Output& output);

private:
  // A point, the map of records, or a point and the name of the spans that begin there.
  using Measured = std::pair<const resolve::ProbePoint*, std::string>;
  struct Interval {
    CountRows rows;
    std::map<Measured, bpf::Histogram> histograms;
  };
  // A stack by which an event is counted; null: none.
  struct CountedStack {
    std::shared_ptr<const KeptStack> stack = {};
    output::StackCompleteness completeness = output::StackCompleteness::complete;
  };

  std::uint64_t interval_number(std::uint64_t time_ns) const;
  Interval& interval_at(std::uint64_t time_ns);
  CountedTime time_of(std::uint64_t interval) const;
  // Returns the point that stands for all locations of a static probe; others stand for themselves.
  const resolve::ProbePoint* register_point(const resolve::ProbePoint& point, std::uint32_t probe);
  const resolve::ProbePoint* point_of_span(const events::Event& event);
  Result<void> check_missing() const;
  CountedStack find_stack(const events::Event& event, output::StackCompleteness completeness);
  void count(const events::Event& event, bool on_return,
             output::StackCompleteness completeness = output::StackCompleteness::complete);
  // Whether the other event of the call is counted instead.
  bool is_counted_elsewhere(const events::Event& event);
  // Returns the values by which an event is counted.
  std::vector<events::ArgumentValue> find_group(const events::Event& event);
  Measured measured_of(const events::Event& event);
  void write(const Interval& interval, const CountedTime& time, output::Output& output) const;
  void write_until(std::uint64_t end, output::Output& output);

  const TotalsSpec& spec_;
  events::EventValues& values_;
  ProcessNameLookup find_process_name_;
  std::vector<std::string> missing_; // values that no event had
  std::uint64_t begin_ns_ = 0;
  bool has_events_ = false;
  bool has_entries_ = false;
  std::vector<std::string> names_;      // of values by which it counts
  std::vector<std::string> read_names_; // also those that are measured
  bool counts_arguments_;
  KeptStacks stacks_;                           // that are counted
  std::map<std::uint64_t, Interval> intervals_; // by number, from 0
  std::uint64_t next_ = 0;                      // the first that was not written
  // The numbers of points, and the points in their order. The locations of a static probe are
  // counted as one.
  std::map<const resolve::ProbePoint*, std::uint32_t> numbers_;
  std::map<std::uint32_t, const resolve::ProbePoint*> by_number_;
  std::map<const resolve::ProbePoint*, const resolve::ProbePoint*> first_points_;
  // By the name of spans: the point where the first of them began.
  std::map<std::string, const resolve::ProbePoint*, std::less<>> span_points_;
};

} // namespace uprobectl::trace
