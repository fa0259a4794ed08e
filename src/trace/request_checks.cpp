// SPDX-License-Identifier: Apache-2.0
// Options of an attach request that contradict each other.
#include "events/record_filter.hpp"
#include "events/span_conditions.hpp"
#include "trace/trace.hpp"

#include <algorithm>

namespace uprobectl::trace {

namespace {

// Returns the first filter option of the request that only the built-in program applies.
std::optional<std::string> find_builtin_only_filter(const AttachRequest& request) {
  const ProcessFilter& filter = request.processes;
  if (filter.all) return std::nullopt;
  if (!filter.names.empty()) return "-p " + filter.names.front();
  if (filter.follow) return "--follow";
  if (request.probes.target_options.app) return "--app";
  if (filter.user) return "--uid";
  if (filter.cgroup) return "--cgroup";
  return std::nullopt;
}

// Returns why stacks cannot be unwound on another machine.
std::optional<std::string> find_raw_stack_conflict(const AttachRequest& request) {
  const std::string option = "--unwind-on host ";
  const events::CaptureSpec& capture = request.capture;
  if (capture.stack == events::StackWalk::frame_pointers || capture.count_stacks)
    return option + "needs --stack=dwarf: with --stack=fp the kernel walks the stacks";
  if (capture.groups.has(BY_STACK) || !capture.send_events)
    return option + "needs events: stacks are counted where they are unwound";
  if (capture.stack != events::StackWalk::frame_data && !(request.program && !capture.caller))
    return option + "needs --stack";
  if (!request.exports.empty())
    return option + "cannot be combined with " + request.exports.front().option +
           ", which report writes where the stacks are unwound";
  if (capture.caller) return option + "cannot be combined with --caller, which needs the frames";
  if (request.stacks.save_dir)
    return option + "cannot be combined with --keep-stacks: whether a stack is complete is known "
                    "when it is unwound";
  return std::nullopt;
}

// Whether values of the end of a span are asked for.
bool asks_for_end(const AttachRequest& request) {
  std::vector<std::string> names;
  if (request.stacks.weight) names = request.stacks.weight->names();
  for (const events::GroupValue& each : request.capture.groups.by) names.push_back(each.text);
  return std::ranges::any_of(
      names, [](const auto& name) { return events::name_at_end(name).has_value(); });
}

// Returns the first contradiction in what a hit captures and where its stacks go.
std::optional<std::string> find_capture_conflict(const AttachRequest& request) {
  const events::CaptureSpec& capture = request.capture;
  const bool has_spans = !request.spans.empty();
  if (capture.measured && !has_spans) {
    const bool is_return = capture.measures_result();
    if (is_return && request.probes.static_probes) return "a static probe has no return value";
    if (!is_return && capture.pair_calls)
      return "--measure of an argument cannot be combined with --min-latency: arguments are read at "
             "the entry, latencies are known at the return";
  }
  if (request.open_spans && asks_for_end(request))
    return "--open shows spans that have not ended: --by and --weight have only values of FROM";
  if (request.program && capture.measured_time)
    return "--histogram needs --measure: records of your own programs have no latency";
  if (request.limits.max_events && !capture.send_events)
    return "-n stops after N events, and --count and --histogram show none: end the run with -d or "
           "--stop-on";
  const bool by_stack = capture.groups.has(BY_STACK);
  const bool keeps_stack = has_spans && by_stack; // which is counted in user space
  if (!capture.groups.by.empty() && !keeps_stack &&
      (capture.stack != events::StackWalk::none || capture.count_stacks))
    return capture.caller && !capture.shows_stacks
               ? "--by cannot be combined with --caller: --by stack has the callers"
               : "--by cannot be combined with --stack: add stack to the values, as in --by stack";
  if (request.stacks.weight && !capture.send_events && !request.open_spans)
    return "--weight needs events: with --count, weigh with --by stack --measure VALUE";
  const events::StackWalk walk =
      capture.count_stacks ? events::StackWalk::frame_pointers : capture.stack;
  if (capture.caller) {
    if (request.program) return "--caller needs the built-in program";
    if (!capture.send_events)
      return "--caller needs events, which --count and --histogram replace: use --stack";
  }
  if (capture.raw_stacks)
    if (auto conflict = find_raw_stack_conflict(request)) return conflict;
  if (walk == events::StackWalk::none || walk == events::StackWalk::caller) {
    // A map of the user's program may carry stacks.
    if (request.program || by_stack) return std::nullopt;
    for (const output::ExportRequest& each : request.exports)
      if (has_only_stacks(each.format) && !request.graph)
        return each.option + " needs --stack or --graph";
    const bool weighs_groups = request.open_spans && !capture.groups.by.empty();
    if (request.stacks.weight && !weighs_groups) return "--weight needs --stack";
    if (capture.source_lines && !capture.caller) return "--lines needs --stack or --caller";
  }
  if (request.stacks.save_dir && !copies_stacks(walk)) return "--keep-stacks needs --stack=dwarf";
  if (walk == events::StackWalk::each_wait && capture.min_latency.count() > 0)
    return "--min-latency cannot be combined with --off-cpu=all: waits are written before their "
           "call ends";
  const bool is_written = !request.exports.empty() || request.stacks.save_dir;
  if (walk != events::StackWalk::none && request.aggregates.histograms &&
      !request.aggregates.counts && !is_written)
    return "--stack has no effect with --histogram: stacks are shown with events or --count, or "
           "written with --folded or --flamegraph";
  return std::nullopt;
}

// Returns why events cannot wait for a trigger.
std::optional<std::string> find_keep_conflict(const AttachRequest& request) {
  if (request.capture.raw_stacks)
    return "--keep cannot be combined with --unwind-on host: a copied stack has only what changed "
           "since the one before";
  if (request.program && !request.probes.until.empty())
    return "--until FUNCTION works only with the built-in program: compare members of the records, "
           "as in --until 'error != 0'";
  return std::nullopt;
}

// Returns why hits cannot stop their processes.
std::optional<std::string> find_stop_conflict(const AttachRequest& request) {
  const ProcessFilter& filter = request.processes;
  const bool is_named = !filter.pids.empty() || !filter.names.empty() || !filter.command.empty();
  if (!is_named || filter.all)
    return "--on-hit stop needs -p or a command: it stops no process that was not named";
  if (request.program) return "--on-hit stop works only with the built-in program";
  const events::CaptureSpec& capture = request.capture;
  if (capture.on_entry && capture.on_return && !capture.pair_calls &&
      !capture.filter.expressions.empty())
    return "--on-hit stop cannot be combined with --entry, --return and --if together: --if keeps "
           "all entries if it compares results, and would stop the process there";
  return std::nullopt;
}

} // namespace

Result<void> check_request(const AttachRequest& request) {
  if (auto conflict = find_capture_conflict(request))
    return fail(ErrorKind::usage, std::move(*conflict));
  if (request.keep)
    if (auto conflict = find_keep_conflict(request))
      return fail(ErrorKind::usage, std::move(*conflict));
  if (request.capture.stops_process)
    if (auto conflict = find_stop_conflict(request))
      return fail(ErrorKind::usage, std::move(*conflict));
  const ProcessFilter& filter = request.processes;
  const std::optional<std::string>& app = request.probes.target_options.app;
  const bool processes = !filter.pids.empty() || !filter.names.empty();
  const bool command = !filter.command.empty();
  if (processes && command) return fail(ErrorKind::usage, "-p cannot be combined with a command");
  if (command && app) return fail(ErrorKind::usage, "--app cannot be combined with a command");
  if (command && filter.all)
    return fail(ErrorKind::usage, "--all-processes cannot be combined with a command");
  if (filter.follow && !processes && !command)
    return fail(ErrorKind::usage, "--follow needs -p or a command");
  if (request.program)
    if (const auto option = find_builtin_only_filter(request))
      return fail(Error{ErrorKind::usage, *option + " is only supported by the built-in program: "
                                                    "your programs filter themselves"}
                      .hint("give pids with -p, which the kernel filters by, or add "
                            "--all-processes: then -p and --app only select the files of TARGET"));
  if (request.program)
    if (auto made = events::RecordFilter::make(request.capture.filter); !made)
      return fail(std::move(made).error());
  if (request.program && request.keep)
    for (const events::Filter& each : request.keep->conditions)
      if (auto made = events::RecordFilter::make(each); !made) return fail(std::move(made).error());
  const bool is_any =
      std::ranges::find(request.probes.functions, "*", &resolve::TargetedFunction::target) !=
      request.probes.functions.end();
  if (is_any && !processes && !app)
    return fail(
        Error{ErrorKind::usage, "TARGET '*' needs processes: it means the files that they map"}
            .hint("name them with -p or --app"));
  return {};
}

} // namespace uprobectl::trace
