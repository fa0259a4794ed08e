// SPDX-License-Identifier: Apache-2.0
// Counts and measures events as they come, instead of showing them: hits by unwound stacks, which
// the kernel does not count; spans by their values; and records of users' programs.
#pragma once

#include "trace/event_totals.hpp"
#include "trace/run_part.hpp"

namespace uprobectl::trace {

// Returns what to count for hits by their stacks. Their measurements are made in the kernel.
TotalsSpec stack_totals(const AttachRequest& request);
// Whether spans are counted and measured by their values: otherwise the kernel does it.
bool counts_spans(const AttachRequest& request);
TotalsSpec span_totals(const AttachRequest& request);
// Returns what to count and measure for records of a user's program. --count --stack counts them by
// their stacks.
TotalsSpec record_totals(const AttachRequest& request);

class CountedEvents final : public RunPart {
public:
  // Borrows all but the specification and `find_name`. `probes`: those that have a histogram even
  // without events. `stacks`: null without stacks. Counting begins now.
  CountedEvents(TotalsSpec spec, std::span<const Probe> probes, const HitStacks* stacks,
                ProcessNameLookup find_name, output::Output& output);

  bool take(Bytes record, events::Event& event) override;
  void report_aggregates(Time now) override;

private:
  TotalsSpec spec_;
  events::EventValues values_;
  EventTotals totals_;
  const HitStacks* stacks_;
  output::Output& output_;
};

} // namespace uprobectl::trace
