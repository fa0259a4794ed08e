// SPDX-License-Identifier: Apache-2.0
// Reports a saved run as the run itself did, from a file or while it is still going on.
#pragma once

#include "trace/event_totals.hpp"
#include "trace/trace.hpp"

#include <functional>

namespace uprobectl::trace {

struct ReportRequest {
  std::string path; // "-": stdin
  std::vector<output::ExportRequest> exports = {};
  bool hides_events = false;                                // events are not written
  std::optional<std::chrono::nanoseconds> min_latency = {}; // leave out the events with less
  events::Filter filter = {}; // leave out the events for which it does not hold
  TotalsSpec totals = {};     // computed from the events, instead of showing them
  // The value that `totals` measure or sum up; "latency" is that of calls, or a member of records.
  std::optional<events::SummedValue> measured = {};
  // The value by which stacks are weighed; nullopt: as in the run.
  std::optional<events::SummedValue> weight = {};
  // How calls are shown that the run has nested; nullopt: as the run did.
  std::optional<output::GraphOptions> graph = {};
  // These replace the conditions of roots that the run had: see GraphHeader and GraphSpec.
  std::optional<std::chrono::nanoseconds> root_min_latency = {};
  events::Filter root_filter = {};
  // Where to search for files that name frames; nullopt: nowhere, as names are saved.
  std::optional<elf::DebugSearch> names = {};
  // For a live view that the output has as recorder: receives the header of the run, which is then
  // shown until the user ends the view. Empty without a view.
  std::function<void(const output::RunHeader&)> live_view = {};
  // The run comes from the parent process, `uprobectl --adb`. The view ends with it, and a view
  // that the user ends interrupts it.
  bool is_of_parent = false;
};

// Writes all complete records of the saved run, and reports if it is truncated. Fails if it is
// damaged, or does not have what was requested.
Result<void> report_saved_run(const ReportRequest& request, output::Output& output);

} // namespace uprobectl::trace
