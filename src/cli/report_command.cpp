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
  ReportRequest::Graph graph;
  ReportOptions report;
  std::optional<std::string> column;
  std::optional<std::uint64_t> depth;
  parser.bind("--graph", graph.shows_calls);
  parser.bind("--graph-depth", depth,
              CountReader{.mistake = "invalid value '{}' for --graph-depth (expected a number of "
                                     "levels)",
                          .most = 1000000});
  parser.bind("--report", graph.reports);
  parser.bind("--report-sort", column);
  parser.bind("--report-function", report.function);
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
  if (column) {
    const auto parsed_column = parse_report_column(*column);
    if (!parsed_column)
      return finish_with(
          parser.usage_error("invalid value '" + *column +
                             "' for --report-sort (expected calls, total, self, min, avg, max, "
                             "p50, p99 or name)"),
          common);
    report.column = *parsed_column;
  }
  if (graph.shows_calls || graph.reports) {
    if (depth) graph.depth = static_cast<std::uint32_t>(*depth);
    report.top = request.aggregates.top;
    graph.report = report;
    request.graph = graph;
  }
  const bool writes_stacks = request.stacks.folded || request.stacks.flame_graph;
  request.stacks.hides_events = writes_stacks && !common.json && !common.output;
  const auto output = open_output(common);
  if (!output) return finish_with(output.error(), common);
  if (const auto reported = report_saved_run(request, **output); !reported)
    (*output)->fail(reported.error(), request.path);
  return finish(**output);
}

} // namespace uprobectl::cli
