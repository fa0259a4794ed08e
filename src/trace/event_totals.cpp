// SPDX-License-Identifier: Apache-2.0
#include "trace/event_totals.hpp"

#include "events/built_in_variables.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::trace {

namespace {

// Events of different CPUs are in the order in which their buffers were read.
constexpr std::uint64_t max_disorder_ns = 1'000'000'000;
// Intervals without events that are written one after the other. A run has fewer.
constexpr std::uint64_t max_empty_intervals = 1U << 20U;

// Whether the pid, tid or comm is unset: a record has those of its sender only if its map sends
// them.
bool is_unset(const values::Value& value) {
  const auto* const text = std::get_if<std::string>(&value.value);
  return text != nullptr ? text->empty() : number_of(value) == 0;
}

} // namespace

Result<void> check_record_totals(const TotalsSpec& totals,
                                 std::span<const values::ValueType> records) {
  if (auto checked = check_record_groups(totals.groups, records); !checked) return checked;
  if (totals.histogram_value)
    return check_record_sum("--measure", *totals.histogram_value, records);
  return {};
}

const resolve::ProbePoint* EventTotals::register_point(const resolve::ProbePoint& point,
                                                       std::uint32_t probe) {
  if (const auto known = first_points_.find(&point); known != first_points_.end())
    return known->second;
  const resolve::ProbePoint* first = &point;
  if (point.static_probe)
    for (const auto& [other, known_first] : first_points_)
      if (known_first->binary == point.binary && known_first->symbol == point.symbol)
        first = known_first;
  first_points_.emplace(&point, first);
  if (first == &point) {
    numbers_.emplace(first, probe);
    by_number_.emplace(probe, first);
  }
  return first;
}

// Spans of a name are counted together, wherever they begin.
const resolve::ProbePoint* EventTotals::point_of_span(const events::Event& event) {
  const resolve::ProbePoint* const first = register_point(*event.point, event.probe);
  return span_points_.try_emplace(std::string(event.span->name), first).first->second;
}

void EventTotals::add_point(const resolve::ProbePoint& point, std::uint32_t probe) {
  register_point(point, probe);
}

std::uint64_t EventTotals::interval_number(std::uint64_t time_ns) const {
  const auto& length = spec_.aggregates.interval;
  if (!length || spec_.by_arrival || time_ns <= begin_ns_) return 0;
  return (time_ns - begin_ns_) / static_cast<std::uint64_t>(length->count());
}

EventTotals::Interval& EventTotals::interval_at(std::uint64_t time_ns) {
  return intervals_[std::max(interval_number(time_ns), next_)];
}

CountedTime EventTotals::time_of(std::uint64_t interval) const {
  const auto length = static_cast<std::uint64_t>(spec_.aggregates.interval->count());
  const std::uint64_t since_ns = begin_ns_ + interval * length;
  return {.since_ns = since_ns, .until_ns = since_ns + length};
}

// Returns a stack without frames for a hit whose stack was not unwound. Returns none for a record
// without a stack, and for a call that did not wait if stacks are those of waits (--off-cpu).
EventTotals::CountedStack EventTotals::find_stack(const events::Event& event,
                                                  output::StackCompleteness completeness) {
  const bool is_counted = spec_.by_stack || spec_.groups.has(BY_STACK);
  const bool has_none = event.record != nullptr || (event.caused_ns && !event.wait);
  if (!is_counted || (event.stack == nullptr && has_none)) return {};
  unwind::Stack stack = event.stack != nullptr ? *event.stack : unwind::Stack();
  if (event.left_by != events::ExitKind::unknown && event.point != nullptr)
    fold_exit(stack, *event.point);
  CountedStack counted{stacks_.keep(stack)};
  if (!counted.stack->stack.frames.empty()) counted.completeness = completeness;
  return counted;
}

void EventTotals::count(const events::Event& event, bool on_return,
                        output::StackCompleteness completeness) {
  const events::GroupSpec& groups = spec_.groups;
  const bool is_of_point = event.record == nullptr;
  if (!spec_.aggregates.counts || (is_of_point && event.point == nullptr)) return;
  has_events_ = true;
  const bool by_stack = spec_.by_stack || groups.has(BY_STACK);
  const resolve::ProbePoint* point = nullptr;
  if (is_of_point)
    point = event.span != nullptr && !by_stack ? point_of_span(event)
                                               : register_point(*event.point, event.probe);
  const CountedStack stack = find_stack(event, completeness);
  std::erase_if(missing_,
                [&](const std::string& name) { return values_.find(name, event).has_value(); });
  std::optional<std::int64_t> measured;
  if (const auto time = groups.measured_time ? time_in(event, *groups.measured_time) : std::nullopt)
    measured = static_cast<std::int64_t>(*time);
  else if (groups.measured)
    measured = values_.find_number(*groups.measured, event);
  CountRow row{.point = point,
               .map = is_of_point ? std::string() : event.record->map,
               .probe = point != nullptr ? numbers_.at(point) : 0,
               .on_return = on_return,
               .values = find_group(event),
               .stack = stack.stack,
               .completeness = stack.completeness,
               .sums = {.count = 1,
                        .measured = measured ? std::uint64_t{1} : 0,
                        .sum = static_cast<std::uint64_t>(measured.value_or(0))},
               .span = std::string(event.span != nullptr ? event.span->name : "")};
  if (spec_.by_process && groups.by.empty()) {
    row.pid = event.pid;
    row.comm = event.comm;
  }
  interval_at(event.time_ns).rows.add(std::move(row));
}

// A run that counts by arguments makes one event of an entry and its return. In a saved run with
// two events, the one that has a value is counted, and the entry if none has.
bool EventTotals::is_counted_elsewhere(const events::Event& event) {
  if (!counts_arguments_ || event.latency_ns) return false;
  const auto has_value = [&](const std::string& name) {
    return values_.find(name, event).has_value();
  };
  if (std::ranges::any_of(names_, has_value)) return false;
  if (values_.has_other_event(names_, event)) return true;
  return has_entries_ && event.kind == events::EventKind::on_return; // neither has a value
}

std::vector<events::ArgumentValue> EventTotals::find_group(const events::Event& event) {
  const events::GroupSpec& groups = spec_.groups;
  // An argument comes before the built-in variable of its name, as in the run.
  std::vector<events::ArgumentValue> values = group_values(groups, event, values_);
  auto value = values.begin();
  for (const events::GroupValue& asked : groups.by) {
    if (asked.built_in == BY_STACK) continue;
    events::ArgumentValue& counted = *value++;
    if (!asked.built_in) continue;
    auto argument = find_value(asked.text, event);
    if (!argument && event.record != nullptr && is_unset(counted.value))
      argument = {.value = {values::Value::Unreadable{"not in the record"}}};
    if (!argument) continue;
    argument->name = asked.text; // which outlives the event
    counted = std::move(*argument);
  }
  return values;
}

void EventTotals::measure_call(const events::OpenCall& call, std::uint64_t end_ns) {
  if (!spec_.aggregates.histograms || spec_.histogram_value) return;
  const resolve::ProbePoint* const first = register_point(*call.point, call.probe);
  std::optional<std::uint64_t> time = call.waiting_ns;
  if (spec_.histogram_time == TIME_LATENCY) time = duration_of(call, end_ns);
  if (spec_.histogram_time == TIME_ON_CPU) time = on_cpu_ns(call, end_ns);
  if (events::needs_causes(spec_.histogram_time)) {
    time.reset();
    if (call.caused_ns) time = (*call.caused_ns)[spec_.histogram_time - TIME_PREEMPTED];
  }
  if (time) events::add_duration(interval_at(end_ns).histograms[{first, {}}], *time);
}

EventTotals::Measured EventTotals::measured_of(const events::Event& event) {
  if (event.record != nullptr) return {nullptr, event.record->map};
  if (event.span != nullptr) return {point_of_span(event), std::string(event.span->name)};
  return {register_point(*event.point, event.probe), {}};
}

void EventTotals::measure(const events::Event& event) {
  if (!spec_.aggregates.histograms) return;
  has_events_ = true;
  const auto histogram = [&]() -> bpf::Histogram& {
    return interval_at(event.time_ns).histograms[measured_of(event)];
  };
  if (!spec_.histogram_value) {
    if (const auto time = time_in(event, spec_.histogram_time))
      events::add_duration(histogram(), *time);
    return;
  }
  std::erase_if(missing_,
                [&](const std::string& name) { return values_.find(name, event).has_value(); });
  if (const auto number = values_.find_number(*spec_.histogram_value, event))
    events::add_number(histogram(), *number);
}

void EventTotals::add(const events::Event& event, output::StackCompleteness completeness) {
  if (event.record != nullptr) {
    has_events_ = true;
    count(event, false, completeness);
    return measure(event);
  }
  if (event.point == nullptr || event.kind == events::EventKind::wait) return; // calls are counted
  has_entries_ |= event.kind == events::EventKind::entry;
  // A paired call is one event, at its return.
  if (!is_counted_elsewhere(event))
    count(event, event.kind == events::EventKind::on_return && !event.latency_ns, completeness);
  measure(event);
}

void EventTotals::write(const Interval& interval, const CountedTime& time,
                        output::Output& output) const {
  const AggregateSpec& spec = spec_.aggregates;
  if (stacks_.were_too_many())
    output.warn_once("too many different stacks: further ones are counted together, without "
                     "frames");
  if (spec.counts) interval.rows.report(spec_.groups, spec, time, output, find_process_name_);
  if (!spec.histograms) return;
  std::vector<output::HistogramRecord> histograms;
  const auto add = [&](const resolve::ProbePoint* point, std::string_view map,
                       const bpf::Histogram& histogram) {
    histograms.push_back({.point = point,
                          .map = map,
                          .in_nanoseconds = !spec_.histogram_value,
                          .histogram = histogram});
  };
  for (const auto& [name, point] : span_points_)
    if (const auto measured = interval.histograms.find({point, name});
        measured != interval.histograms.end())
      histograms.push_back({.point = point,
                            .in_nanoseconds = !spec_.histogram_value,
                            .histogram = measured->second,
                            .span = name});
  for (const auto& [number, point] : by_number_) {
    if (!span_points_.empty()) break; // all events are spans
    const auto measured = interval.histograms.find({point, {}});
    add(point, {}, measured != interval.histograms.end() ? measured->second : bpf::Histogram());
  }
  for (const auto& [measured, histogram] : interval.histograms)
    if (measured.first == nullptr) add(nullptr, measured.second, histogram);
  write_histograms(std::move(histograms), spec, time, output);
}

// Writes the intervals before the given one.
void EventTotals::write_until(std::uint64_t end, output::Output& output) {
  while (next_ < end) {
    const auto first = intervals_.begin();
    const std::uint64_t with_events = first != intervals_.end() ? std::min(first->first, end) : end;
    const bool shows_empty =
        spec_.aggregates.histograms && with_events - next_ <= max_empty_intervals;
    for (; shows_empty && next_ < with_events; ++next_) write({}, time_of(next_), output);
    next_ = with_events;
    if (next_ == end) return;
    write(first->second, time_of(next_++), output);
    intervals_.erase(first);
  }
}

void EventTotals::advance(std::uint64_t now_ns, output::Output& output) {
  if (!spec_.aggregates.interval || now_ns < begin_ns_ + max_disorder_ns) return;
  write_until(interval_number(now_ns - max_disorder_ns), output);
}

Result<void> EventTotals::check_missing() const {
  // In a run, values that no point has are found before.
  if (missing_.empty() || !has_events_ || spec_.by_arrival) return {};
  return fail(ErrorKind::not_found, fmt::format("no event has the value '{}'", missing_.front()));
}

Result<void> EventTotals::end_interval(std::uint64_t now_ns, output::Output& output) {
  if (auto checked = check_missing(); !checked) return checked;
  write(intervals_[0], {.since_ns = begin_ns_, .until_ns = now_ns}, output);
  intervals_.clear();
  begin_ns_ = now_ns;
  return {};
}

Result<void> EventTotals::finish(std::uint64_t end_ns, output::Output& output) {
  if (!spec_.aggregates.interval) return end_interval(end_ns, output);
  if (auto checked = check_missing(); !checked) return checked;
  write_until(interval_number(end_ns), output);
  // The interval since the last whole one is written even if it has no events.
  intervals_.try_emplace(next_);
  for (const auto& [number, interval] : intervals_) {
    const std::uint64_t since_ns = time_of(number).since_ns;
    write(interval, {.since_ns = since_ns, .until_ns = std::max(since_ns, end_ns)}, output);
  }
  return {};
}

} // namespace uprobectl::trace
