// SPDX-License-Identifier: Apache-2.0
// The stacks in records of the built-in program: finds them, and counts hits by them.
#pragma once

#include "events/plan.hpp"
#include "trace/event_totals.hpp"
#include "trace/hit_stacks.hpp"
#include "trace/run_part.hpp"

namespace uprobectl::trace {

// Sets the stack of each event, or its caller.
class RecordStacks final : public RunPart {
public:
  // Borrows the arguments.
  RecordStacks(const events::CapturePlan& plan, const events::CaptureSpec& capture,
               HitStacks& stacks)
      : plan_(plan), capture_(capture), stacks_(stacks) {}

  bool take(Bytes record, events::Event& event) override;

private:
  const events::CapturePlan& plan_;
  const events::CaptureSpec& capture_;
  HitStacks& stacks_;
};

// Counts hits by their stacks, which the kernel does not do with those that are unwound.
class StackCounts final : public RunPart {
public:
  // Borrows the arguments but `find_name`. Counting begins now.
  StackCounts(const AttachRequest& request, std::span<const Probe> probes, const HitStacks& stacks,
              ProcessNameLookup find_name, output::Output& output);

  bool take(Bytes record, events::Event& event) override;
  void report(Time now) override;

private:
  TotalsSpec spec_;
  events::EventValues values_; // not used: stacks are counted without values
  EventTotals totals_;
  const HitStacks& stacks_;
  output::Output& output_;
};

} // namespace uprobectl::trace
