// SPDX-License-Identifier: Apache-2.0
#include "trace/record_stacks.hpp"

#include "util/clock.hpp"

namespace uprobectl::trace {

bool RecordStacks::take(Bytes record, events::Event& event) {
  const auto captured = plan_.decode_stack(record);
  if (!captured) return true;
  const unwind::Stack* const stack = stacks_.find(event, *captured);
  event.has_raw_stack = stack == nullptr;
  if (stack == nullptr) return true;
  event.sample = stacks_.sample();
  if (capture_.caller) event.caller = find_caller(*stack);
  if (capture_.shows_stacks) event.stack = stack;
  return true;
}

StackCounts::StackCounts(const AttachRequest& request, std::span<const Probe> probes,
                         const HitStacks& stacks, ProcessNameLookup find_name,
                         output::Output& output)
    : spec_{.aggregates = request.aggregates,
            .by_process = request.capture.count_by_process,
            .by_stack = true,
            .by_arrival = true},
      totals_(spec_, values_, std::move(find_name)), stacks_(stacks), output_(output) {
  spec_.aggregates.histograms = false; // the kernel measures
  for (const Probe& probe : probes)
    totals_.add_point(probe.point, static_cast<std::uint32_t>(probe.number));
  totals_.begin(clock_ns(CLOCK_MONOTONIC));
}

bool StackCounts::take(Bytes /*record*/, events::Event& event) {
  totals_.add(event, stacks_.completeness());
  return true;
}

void StackCounts::report(Time now) {
  // Without values that could be missing.
  static_cast<void>(totals_.end_interval(to_monotonic_ns(now), output_));
}

} // namespace uprobectl::trace
