// SPDX-License-Identifier: Apache-2.0
#include "capture_options.hpp"
#include "console.hpp"
#include "option_values.hpp"
#include "trace/saved_report.hpp"

namespace uprobectl::cli {

ExitCode run_report(std::span<const std::string_view> arguments) {
  OptionParser parser("report");
  CommonOptions common{.private_output = true};
  bind_common_options(parser, common);
  ReportRequest request;
  parser.bind("--folded", request.stacks.folded);
  parser.bind("--flamegraph", request.stacks.flame_graph);
  parser.bind("--min-latency", request.min_latency, DurationReader{"--min-latency"});
  parser.bind("--count", request.aggregates.counts);
  parser.bind("--per-process", request.count_by_process);
  parser.bind("--histogram", request.aggregates.histograms);
  parser.bind(
      "--top", request.aggregates.top,
      CountReader{.mistake = "invalid value '{}' for --top (expected a number of functions)"});
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  const auto words = parsed->words();
  if (words.size() != 1) return finish_with(parser.usage_error("expected one FILE"), common);
  request.path = words.front();
  for (const auto& path : {request.stacks.folded, request.stacks.flame_graph})
    if (path && is_output(*path, common.output))
      return finish_with(
          parser.usage_error("--folded and --flamegraph would overwrite the records"), common);
  if (request.stacks.folded && request.stacks.folded == request.stacks.flame_graph)
    return finish_with(parser.usage_error("--folded and --flamegraph need different files"),
                       common);
  const bool writes_stacks = request.stacks.folded || request.stacks.flame_graph;
  request.stacks.hides_events = writes_stacks && !common.json && !common.output;
  const auto output = open_output(common);
  if (!output) return finish_with(output.error(), common);
  if (const auto reported = report_saved_run(request, **output); !reported)
    (*output)->fail(reported.error(), request.path);
  return finish(**output);
}

} // namespace uprobectl::cli
