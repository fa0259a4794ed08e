// SPDX-License-Identifier: Apache-2.0
// The header of a run, by its request.
#include "events/built_in_variables.hpp"
#include "trace/trace.hpp"

namespace uprobectl::trace {

namespace {

// Returns the unit of the values by which stacks are weighed.
std::optional<std::string> value_unit(const AttachRequest& request) {
  const events::GroupSpec& groups = request.capture.groups;
  const auto& value = groups.measured ? groups.measured : request.stacks.weight;
  if (groups.measured_time || find_time(value)) return "ns";
  return value ? std::optional(value->text) : std::nullopt;
}

} // namespace

output::RunHeader make_header(const AttachRequest& request) {
  const events::CaptureSpec& capture = request.capture;
  // Kernel counts are numbers of hits, even if latencies are measured.
  const bool pairs_calls = capture.pair_calls && !capture.count_stacks && capture.groups.by.empty();
  output::RunHeader header{.command = request.title,
                           .sends_events = capture.send_events,
                           .has_stacks = capture.has_whole_stacks(),
                           .weighs_time = pairs_calls || request.graph || !request.spans.empty(),
                           .graph = request.graph,
                           .value_unit = value_unit(request),
                           .view = request.stacks.view,
                           .sends_latencies =
                               request.aggregates.histograms && capture.measured_time,
                           .system = output::describe_system(),
                           .runs_program = request.program.has_value()};
  if (capture.raw_stacks)
    header.raw_stacks = {.stack_bytes = capture.stack_bytes, .source_lines = capture.source_lines};
  return header;
}

} // namespace uprobectl::trace
