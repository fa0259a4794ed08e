// SPDX-License-Identifier: Apache-2.0
// What a run sends to its exports, by its request.
#include "events/built_in_variables.hpp"
#include "trace/trace.hpp"

namespace uprobectl::trace {

namespace {

// Returns the unit of the values that stacks weigh.
std::optional<std::string> value_unit(const AttachRequest& request) {
  const events::GroupSpec& groups = request.capture.groups;
  const auto& value = groups.measured ? groups.measured : request.stacks.weight;
  if (groups.measured_time || find_time(value)) return "ns";
  return value ? std::optional(value->text) : std::nullopt;
}

} // namespace

output::ExportedRun describe_exported_run(const AttachRequest& request) {
  const events::CaptureSpec& capture = request.capture;
  const events::GroupSpec& groups = capture.groups;
  // Kernel counts are numbers of hits, even if latencies are measured.
  return {.title = request.title,
          .system = output::describe_system(),
          .start = {},
          .timed = (capture.pair_calls && !capture.count_stacks && groups.by.empty()) ||
                   request.graph || !request.spans.empty(),
          .value_unit = value_unit(request),
          .view = request.stacks.view,
          .sends_calls = request.graph.has_value(),
          .sends_stacks = capture.asks_for_stacks(),
          .only_callers = capture.stack == events::StackWalk::caller,
          .sends_events = capture.send_events,
          .sends_latencies = request.aggregates.histograms && capture.measured_time};
}

} // namespace uprobectl::trace
