// SPDX-License-Identifier: Apache-2.0
// Counts and measures the records of users' programs, instead of showing them.
#pragma once

#include "trace/event_totals.hpp"
#include "trace/run_part.hpp"

namespace uprobectl::trace {

// What is counted and measured of records. --count --stack counts them by their stacks.
TotalsSpec record_totals(const AttachRequest& request);

class CountedRecords final : public RunPart {
public:
  // Borrows all but the specification. `stacks`: null without stacks. Counting begins now.
  CountedRecords(TotalsSpec spec, const HitStacks* stacks, output::Output& output);

  bool take(Bytes record, events::Event& event) override;
  void report(Time now) override;
  void finish(ProgramResults& results) override { results.counted_records = count_; }

private:
  TotalsSpec spec_;
  events::EventValues members_; // of records
  EventTotals totals_;
  const HitStacks* stacks_;
  output::Output& output_;
  std::uint64_t count_ = 0;
};

} // namespace uprobectl::trace
