// SPDX-License-Identifier: Apache-2.0
#include "capture_options.hpp"
#include "console.hpp"
#include "debuginfod.hpp"
#include "host/local_report.hpp"
#include "live/view.hpp"
#include "trace/saved_report.hpp"
#include "util/numbers.hpp"

#include <cerrno>
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::cli {

namespace {

// Whether the parent process writes the run, as `uprobectl --adb` does for that of a device.
bool is_run_of_parent() {
  const char* const parent = std::getenv(host::LocalReport::parent_variable);
  return parent != nullptr && parse_number<pid_t>(parent) == ::getppid();
}

} // namespace

ExitCode run_report(std::span<const std::string_view> arguments, Workstation& workstation) {
  OptionParser parser("report");
  CommonOptions common{.workstation = &workstation, .private_output = true, .takes_exports = true};
  bind_common_options(parser, common);
  trace::ReportRequest request;
  StackFiles files;
  bind_stack_files(parser, files);
  parser.bind("--min-latency", request.min_latency, DurationReader{"--min-latency"});
  parser.bind("--count", request.totals.aggregates.counts);
  parser.bind("--per-process", request.totals.by_process);
  parser.bind("--stack", request.totals.by_stack);
  std::optional<std::string> by;
  parser.bind("--by", by);
  parser.bind("--measure", request.measured, events::parse_summed_value);
  parser.bind("--histogram", request.totals.aggregates.histograms);
  parser.bind("--top", request.totals.aggregates.top,
              CountReader{"--top", "a number of functions"});
  parser.bind("--interval", request.totals.aggregates.interval, DurationReader{"--interval"});
  parser.bind("--weight", request.weight, events::parse_summed_value);
  std::vector<std::string> conditions;
  parser.bind("--if", conditions);
  output::GraphOptions graph;
  std::optional<std::string> column;
  parser.bind("--graph", graph.shows_calls);
  parser.bind("--graph-depth", graph.depth, graph_depth_reader());
  parser.bind("--root-min-latency", request.root_min_latency, DurationReader{"--root-min-latency"});
  std::vector<std::string> root_conditions;
  parser.bind("--root-if", root_conditions);
  parser.bind("--report", graph.reports);
  parser.bind("--report-sort", column);
  parser.bind("--report-function", graph.report.function);
  bool live = false;
  parser.bind("--live", live);
  std::vector<std::string> paths;
  bind_debug_options(parser, paths, common);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  const auto words = parsed->words();
  if (words.size() != 1) return finish_with(parser.usage_error("expected one FILE"), common);
  request.path = words.front();
  if (by) {
    auto groups = events::parse_groups(*by, {});
    if (!groups) return finish_with(parser.usage_error("--by: " + groups.error().message), common);
    request.totals.groups = std::move(*groups);
  }
  if (request.measured && !by && !request.totals.aggregates.histograms)
    return finish_with(parser.usage_error("--measure needs --histogram or --by"), common);
  if (auto added = add_conditions(request.filter, conditions, workstation); !added)
    return finish_with(parser.usage_error("--if: " + added.error().message), common);
  if (auto added = add_conditions(request.root_filter, root_conditions, workstation, "--root-if");
      !added)
    return finish_with(parser.usage_error("--root-if: " + added.error().message), common);
  for (const std::string& path : paths) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0)
      return finish_with(system_error(errno, path).within("--debug-dir"), common);
  }
  if (!paths.empty() || common.debuginfod) request.names = {.paths = std::move(paths)};
  if (auto split = split_outputs(parser, common); !split) return finish_with(split.error(), common);
  auto exports = list_exports(parser, files, common);
  if (!exports) return finish_with(exports.error(), common);
  request.exports = std::move(*exports);
  if (request.weight && request.exports.empty())
    return finish_with(parser.usage_error("--weight needs --flamegraph, --folded or -o FILE"),
                       common);
  request.hides_events = replace_events(files, common);
  if (graph.shows_calls || graph.reports) {
    if (column) // the parser has checked it
      graph.report.column = events::parse_report_column(*column).value_or(graph.report.column);
    graph.report.top = request.totals.aggregates.top;
    request.graph = graph;
  }
  std::unique_ptr<live::View> view;
  if (live) {
    if (common.json && !common.output)
      return finish_with(parser.usage_error("--live needs -o FILE with --json: the view has the "
                                            "terminal"),
                         common);
    if (auto checked = live::Terminal::check(); !checked)
      return finish_with(
          Error(checked.error()).within("--live").hint("report FILE without --live prints the run"),
          common);
    request.is_of_parent = request.path == "-" && is_run_of_parent();
    auto made = live::View::make({.stops_group = request.is_of_parent,
                                  .ends_with_terminal = !request.is_of_parent,
                                  .messages = output_options(common)});
    if (!made) return finish_with(made.error(), common);
    view = std::move(*made);
    request.live_view = [&view](const output::RunHeader& header) {
      view->begin(header.command, header.has_stacks);
    };
    common.hides_recorded_messages = true;
  }
  const bool is_shown = live && !common.output;
  if (is_shown) common.output = "/dev/null";
  const auto output = open_output(common, {}, is_shown);
  if (!output) return finish_with(output.error(), common);
  if (view) (*output)->add_recorder(*view);
  const DebugFetching fetching(common.debuginfod, **output);
  if (const auto reported = report_saved_run(request, **output); !reported)
    (*output)->fail(reported.error(), request.path);
  return finish(**output);
}

} // namespace uprobectl::cli
