// SPDX-License-Identifier: Apache-2.0
#include "trace/counted_records.hpp"

#include "util/clock.hpp"

namespace uprobectl::trace {

TotalsSpec record_totals(const AttachRequest& request) {
  const events::CaptureSpec& capture = request.capture;
  TotalsSpec totals{.aggregates = request.aggregates, .groups = capture.groups, .by_arrival = true};
  if (capture.asks_for_stacks() && totals.groups.by.empty())
    totals.groups.by.push_back({.text = "stack", .built_in = BY_STACK});
  totals.measured = capture.measured;
  return totals;
}

CountedRecords::CountedRecords(TotalsSpec spec, const HitStacks* stacks, output::Output& output)
    : spec_(std::move(spec)), totals_(spec_, members_, nullptr), stacks_(stacks), output_(output) {
  totals_.begin(clock_ns(CLOCK_MONOTONIC));
}

bool CountedRecords::take(Bytes /*record*/, events::Event& event) {
  ++count_;
  totals_.add(event,
              stacks_ != nullptr ? stacks_->completeness() : output::StackCompleteness::complete);
  return true;
}

void CountedRecords::report(Time now) {
  if (auto reported = totals_.end_interval(to_monotonic_ns(now), output_); !reported)
    output_.warn(reported.error().message);
}

} // namespace uprobectl::trace
