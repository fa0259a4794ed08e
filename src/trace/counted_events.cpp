// SPDX-License-Identifier: Apache-2.0
#include "trace/counted_events.hpp"

#include "util/clock.hpp"

namespace uprobectl::trace {

TotalsSpec stack_totals(const AttachRequest& request) {
  TotalsSpec totals{.aggregates = request.aggregates,
                    .by_process = request.capture.count_by_process,
                    .by_stack = true,
                    .by_arrival = true};
  totals.aggregates.histograms = false;
  return totals;
}

bool counts_spans(const AttachRequest& request) {
  return request.capture.counts_span_values() && !request.open_spans;
}

TotalsSpec span_totals(const AttachRequest& request) {
  const events::CaptureSpec& capture = request.capture;
  return {.aggregates = request.aggregates,
          .groups = capture.groups,
          .histogram_value = capture.measured,
          .histogram_time = capture.measured_time.value_or(TIME_LATENCY),
          .by_arrival = true};
}

TotalsSpec record_totals(const AttachRequest& request) {
  const events::CaptureSpec& capture = request.capture;
  TotalsSpec totals{.aggregates = request.aggregates, .groups = capture.groups, .by_arrival = true};
  if (capture.asks_for_stacks() && totals.groups.by.empty())
    totals.groups.by.push_back({.text = "stack", .built_in = BY_STACK});
  totals.histogram_value = capture.measured;
  return totals;
}

CountedEvents::CountedEvents(TotalsSpec spec, std::span<const Probe> probes,
                             const HitStacks* stacks, ProcessNameLookup find_name,
                             output::Output& output)
    : spec_(std::move(spec)), totals_(spec_, values_, std::move(find_name)), stacks_(stacks),
      output_(output) {
  for (const Probe& probe : probes)
    totals_.add_point(probe.point, static_cast<std::uint32_t>(probe.number));
  totals_.begin(clock_ns(CLOCK_MONOTONIC));
}

bool CountedEvents::take(Bytes /*record*/, events::Event& event) {
  totals_.add(event,
              stacks_ != nullptr ? stacks_->completeness() : output::StackCompleteness::complete);
  return true;
}

void CountedEvents::report_aggregates(Time now) {
  // Fails only for intervals by the times of events.
  static_cast<void>(totals_.end_interval(to_monotonic_ns(now), output_));
}

} // namespace uprobectl::trace
