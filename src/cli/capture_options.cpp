// SPDX-License-Identifier: Apache-2.0
#include "capture_options.hpp"

#include "events/built_in_variables.hpp"
#include "events/span_conditions.hpp"
#include "option_values.hpp"
#include "requests.hpp"
#include "util/descriptor_io.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <unistd.h>
#include <utility>

namespace uprobectl::cli {

namespace {

// Static probes have no return.
void bind_return_options(OptionParser& parser, CaptureOptions& options) {
  parser.bind("--entry", options.entry);
  parser.bind("--return", options.on_return);
  parser.bind("--return-at", options.return_at);
  parser.bind("--latency", options.latency);
  parser.bind("--cpu", options.cpu);
  parser.bind("--off-cpu", options.off_cpu);
  parser.bind("--min-latency", options.min_latency, DurationReader{"--min-latency"});
  parser.bind("--graph", options.graph);
  parser.bind("--graph-root", options.graph_roots);
  parser.bind("--graph-depth", options.graph_depth, graph_depth_reader());
  parser.bind("--graph-limit", options.graph_limit,
              CountReader{"--graph-limit", "a number of functions"});
  parser.bind("--root-min-latency", options.root_min_latency, DurationReader{"--root-min-latency"});
  parser.bind("--root-if", options.root_conditions);
  parser.bind("--report", options.report);
  parser.bind("--span", options.spans);
  parser.bind("--open", options.open);
  parser.bind("--report-sort", options.report_sort);
  parser.bind("--report-function", options.report_function);
}

// Keeps the parser's message; a usage error also says where to find help.
Error error_of_value(const OptionParser& parser, const std::string& option, Error error) {
  error.message.insert(0, option);
  if (error.kind != ErrorKind::usage) return error;
  Error usage = parser.usage_error(error.message);
  usage.hints.insert(usage.hints.begin(), error.hints.begin(), error.hints.end());
  return usage;
}

// Reads one byte more than `most`, so that a larger file is noticed.
Result<std::string> read_start(const std::string& path, std::size_t most,
                               Workstation& workstation) {
  const UniqueFd file = workstation.open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  auto content = file ? read_up_to(file.get(), most + 1) : std::unexpected(errno);
  if (!content) return fail(system_error(content.error(), "cannot read the file"));
  return std::move(*content);
}

// The parser has checked it.
Result<output::FlameView> parse_view(std::string_view name) {
  if (name == "inverted") return output::FlameView::inverted;
  return name == "callers" ? output::FlameView::callers : output::FlameView::callees;
}

// Applies CaptureOptions to a request.
class CaptureApplication {
public:
  CaptureApplication(const OptionParser& parser, const CaptureOptions& options,
                     Workstation& workstation, trace::AttachRequest& request)
      : parser_(parser), options_(options), workstation_(workstation), request_(request),
        capture_(request.capture) {}

  Result<void> apply() {
    set_phases();
    if (!options_.spans.empty())
      if (auto read = read_spans(); !read) return read;
    if (options_.graph || options_.report)
      if (auto read = read_graph(); !read) return read;
    if (auto read = read_limits(); !read) return read;
    if (auto read = read_values(); !read) return read;
    if (options_.off_cpu == "all" && (!options_.spans.empty() || request_.graph))
      return wrong("--off-cpu=all shows the waits of calls: with --graph, --report and --span only "
                   "their sums are known, with --off-cpu");
    return {};
  }

private:
  std::unexpected<Error> wrong(const std::string& what) const {
    return fail(parser_.usage_error(what));
  }

  void set_phases() {
    const trace::AggregateSpec& aggregates = request_.aggregates;
    capture_.on_return = options_.on_return;
    capture_.on_entry = options_.entry || !options_.on_return;
    capture_.send_events = !aggregates.counts && !aggregates.histograms;
    capture_.stops_process = options_.on_hit.has_value(); // "stop"
    const auto time = events::find_time(options_.measured.value_or("latency"));
    if (aggregates.histograms &&
        (!options_.measured || (events::needs_waits(time) && !request_.program)))
      capture_.measured_time = time;
    const bool needs_returns =
        options_.cpu || options_.off_cpu || options_.min_latency || capture_.measured_time;
    capture_.pair_calls = options_.latency || needs_returns;
    request_.probes.returns_are_optional = options_.latency_is_implied && !needs_returns;
    capture_.tracks_waits = options_.cpu;
    track(capture_.measured_time);
    if (options_.off_cpu) capture_.tracks_waits = capture_.tracks_causes = true;
    if (options_.off_cpu && !options_.graph && !options_.report && options_.spans.empty()) {
      capture_.stack = *options_.off_cpu == "all" ? events::StackWalk::each_wait
                                                  : events::StackWalk::longest_wait;
      capture_.stack_bytes = events::default_waiting_stack_bytes;
    }
    request_.probes.return_at = return_at(options_.return_at.value_or("auto"));
    if (options_.min_latency) capture_.min_latency = *options_.min_latency;
    if (options_.max_string_bytes)
      capture_.max_string_bytes = static_cast<std::uint32_t>(*options_.max_string_bytes);
  }

  // A time that the run has to know.
  void track(std::optional<call_time> time) {
    capture_.tracks_waits |= events::needs_waits(time);
    capture_.tracks_causes |= events::needs_causes(time);
  }
  void track_compared(const events::Filter& filter) {
    for (const events::ConditionSpec& term : filter.terms)
      if (term.built_in && !is_declared(term)) track(events::call_time_of(*term.built_in));
  }

  // A point at a return has the values of the call, so calls are paired.
  Result<void> read_spans() {
    trace::ProbeSelection& probes = request_.probes;
    if (!probes.functions.empty())
      return wrong("--span cannot be combined with FUNCTIONs: it names them itself");
    for (const std::string& text : options_.spans)
      if (auto added = add_span(request_.spans, text, probes.target); !added)
        return fail(parser_.usage_error(std::move(added).error().message));
    capture_.on_entry = true;
    capture_.pair_calls = false;
    for (const events::SpanSpec& span : request_.spans) {
      capture_.spans.push_back(span.name);
      for (const std::vector<events::SpanPoint>* const points : {&span.begins, &span.ends})
        for (const events::SpanPoint& point : *points) {
          capture_.pair_calls |= point.at_return;
          if (!point.static_probe &&
              std::ranges::find(probes.functions, point.function) == probes.functions.end())
            probes.functions.push_back(point.function);
        }
    }
    if (!options_.open) return {};
    if (options_.by && (options_.open == "list" || options_.open == "stacks"))
      return wrong(fmt::format("--open={} cannot be combined with --by, which sums up by values",
                               *options_.open));
    capture_.send_events = false;
    capture_.lists_open_spans = true;
    using How = trace::OpenSpans::How;
    request_.open_spans = trace::OpenSpans{.how = options_.open == "list"     ? How::list
                                                  : options_.open == "stacks" ? How::stacks
                                                                              : How::automatic,
                                           .top = request_.aggregates.top};
    return {};
  }

  // Calls are paired and filtered where they are nested.
  Result<void> read_graph() {
    trace::GraphSpec& graph = request_.graph.emplace();
    graph.shows_calls = options_.graph;
    graph.reports = options_.report;
    graph.report.function = options_.report_function;
    graph.report.top = request_.aggregates.top;
    if (options_.report_sort) // the parser has checked it
      graph.report.column =
          events::parse_report_column(*options_.report_sort).value_or(graph.report.column);
    if (options_.graph_depth) graph.depth = static_cast<std::uint32_t>(*options_.graph_depth);
    if (options_.graph_limit) graph.max_functions = *options_.graph_limit;
    if (options_.root_min_latency)
      graph.root_min_latency_ns = static_cast<std::uint64_t>(options_.root_min_latency->count());
    graph.root_conditions = options_.root_conditions;
    if (auto added =
            add_conditions(graph.root_filter, options_.root_conditions, workstation_, "--root-if");
        !added)
      return wrong_value("--root-if: ", std::move(added).error());
    track_compared(graph.root_filter);
    capture_.on_entry = capture_.on_return = capture_.nest_calls = true;
    capture_.pair_calls = false;
    graph.min_latency_ns = static_cast<std::uint64_t>(
        std::exchange(capture_.min_latency, std::chrono::nanoseconds(0)).count());
    return read_recording_state("--graph-root: ", options_.graph_roots, graph.roots);
  }

  // `how` is a valid value: the parser has checked it.
  static trace::ReturnAt return_at(std::string_view how) {
    if (how == "trampoline") return trace::ReturnAt::trampoline;
    if (how == "callee") return trace::ReturnAt::callee;
    return how == "ret" ? trace::ReturnAt::own_exits : trace::ReturnAt::automatic;
  }

  Result<void> read_values() {
    // Alone these are keywords, not lists.
    const bool is_keyword = options_.arguments.size() == 1 &&
                            (options_.arguments[0] == "auto" || options_.arguments[0] == "none");
    capture_.typed = options_.arguments.empty() || options_.arguments[0] == "auto";
    for (const std::string& text : options_.arguments) {
      if (is_keyword) break;
      std::optional<std::size_t> error_at;
      auto list = events::parse_arguments(text, &error_at);
      if (!list) {
        if (error_at) list.error().message += fmt::format(", at character {}", *error_at + 1);
        return wrong_value("--args: ", std::move(list).error());
      }
      if (auto checked = check_selectors(*list); !checked)
        return wrong_value("--args: ", std::move(checked).error());
      capture_.arguments.push_back(std::move(*list));
    }
    // Lists for some functions leave the others as they are.
    if (std::ranges::all_of(capture_.arguments, [](const events::ArgumentList& list) {
          return list.function.has_value();
        }))
      capture_.typed = capture_.typed || !capture_.arguments.empty();
    for (const std::string& path : options_.prototypes)
      if (auto read = read_prototypes(path); !read) return read;
    if (auto read = read_filters(); !read) return read;
    if (auto read = read_triggers(); !read) return read;
    if (options_.by) return read_groups();
    if (options_.measured && !request_.aggregates.histograms)
      return wrong("--measure needs --histogram or --by");
    if (!options_.measured || capture_.measured_time) return {};
    auto value = events::parse_summed_value(*options_.measured);
    if (!value)
      return wrong("invalid value '" + *options_.measured +
                   "' for --measure (expected arg0, arg1, …, ret, a register or a parameter, or "
                   "the product of two)");
    capture_.measured = std::move(*value);
    // The returned value is known at the return only: probe it unless --entry is given.
    if (capture_.measures_result() && !options_.entry && !capture_.pair_calls &&
        !request_.program && request_.spans.empty()) {
      capture_.on_return = true;
      capture_.on_entry = false;
    }
    return {};
  }

  Result<void> read_groups() {
    auto groups = parse_groups(*options_.by, capture_.arguments);
    if (!groups) return wrong_value("--by: ", std::move(groups).error());
    if (request_.spans.empty()) // "to.tid" is a member of a variable
      for (events::GroupValue& each : groups->by)
        if (each.at_end) each = {.text = each.text};
    capture_.groups = std::move(*groups);
    events::GroupSpec& by = capture_.groups;
    if (!request_.program) by.measured_time = events::find_time(options_.measured.value_or(""));
    if (options_.measured && !by.measured_time) {
      auto value = events::parse_summed_value(*options_.measured);
      if (!value) return wrong_value("--measure: ", std::move(value).error());
      by.measured = std::move(*value);
    }
    track(by.measured_time);
    if (request_.program) return {}; // the values are members of its records
    if (!request_.spans.empty()) return {};
    if (!options_.max_string_bytes) capture_.max_string_bytes = max_group_string(by);
    const bool at_return = by.reads_result() || by.measured_time;
    if (request_.probes.static_probes) {
      if (at_return) return wrong("a static probe has no return value and no latency");
      return {};
    }
    // The entry and its return are one call if values of both are asked for.
    if (by.measured_time || by.has(BY_ERRNO) ||
        (by.reads_arguments() && (at_return || options_.on_return)))
      capture_.pair_calls = true;
    else if (by.reads_result() && !options_.entry && !capture_.pair_calls) {
      capture_.on_return = true;
      capture_.on_entry = false;
    }
    return {};
  }

  Result<void> read_prototypes(const std::string& path) {
    const auto text = read_start(path, events::max_prototype_file, workstation_);
    if (!text) return wrong_value("--prototypes " + path + ": ", text.error());
    if (auto added = capture_.prototypes.add(*text); !added)
      return wrong_value("--prototypes " + path + ": ", std::move(added).error());
    return {};
  }

  Result<void> read_limits() {
    if (options_.sample) {
      const auto one_in = events::parse_sample(*options_.sample);
      if (!one_in) return wrong_value("--sample: ", one_in.error());
      capture_.limits.one_in = *one_in;
    }
    if (options_.max_rate) {
      const auto rate = events::parse_rate(*options_.max_rate);
      if (!rate) return wrong_value("--max-rate: ", rate.error());
      capture_.limits.max_rate = *rate;
    }
    if (auto read =
            read_recording_state("--start-on: ", options_.start_on, request_.probes.start_on);
        !read)
      return read;
    return read_recording_state("--stop-on: ", options_.stop_on, request_.probes.stop_on);
  }

  Result<void> read_recording_state(const std::string& option,
                                    const std::vector<std::string>& texts,
                                    std::vector<resolve::TargetedFunction>& functions) const {
    for (const std::string& text : texts) {
      auto named = read_function(text, request_.probes.target,
                                 request_.probes.static_probes ? WordKind::static_probes
                                                               : WordKind::functions);
      if (!named) return wrong_value(option, std::move(named).error());
      functions.push_back(std::move(*named));
    }
    return {};
  }

  Result<void> read_filters() {
    if (auto added = add_conditions(capture_.filter, options_.conditions, workstation_); !added)
      return wrong_value("--if: ", std::move(added).error());
    if (compares_time(capture_.filter) && request_.graph)
      return wrong("--if: a tree shows a call before its latency is known: use --min-latency");
    if ((compares(capture_.filter, COMPARE_FAILED) || compares(capture_.filter, COMPARE_ERRNO)) &&
        request_.graph)
      return wrong("--if: a tree shows a call before its result is known");
    // The compared values, also the name of the thread, may change until the return.
    if (request_.graph) capture_.entry_decides = !options_.conditions.empty();
    if (!request_.spans.empty()) return read_span_filters();
    pair_calls_for(capture_.filter);
    return {};
  }

  // Calls are paired where a point is at a return.
  Result<void> read_span_filters() {
    auto conditions = split_span_conditions(capture_.filter);
    if (!conditions) return fail(parser_.usage_error(std::move(conditions).error().message));
    const bool asks_for_end = !conditions->ends.empty() || conditions->min || conditions->max;
    if (request_.open_spans && asks_for_end)
      return wrong("--open shows spans that have not ended: --if compares only values of FROM");
    capture_.filter.expressions = std::move(conditions->begins);
    capture_.end_conditions = std::move(conditions->ends);
    if (conditions->min) capture_.min_latency = std::max(capture_.min_latency, *conditions->min);
    capture_.max_duration = conditions->max;
    return {};
  }

  // Unless an argument has this name.
  bool is_declared(const events::ConditionSpec& term) const {
    return std::ranges::any_of(capture_.arguments, [&](const events::ArgumentList& list) {
      return find_argument(list.arguments, term.name()) != nullptr;
    });
  }
  bool compares(const events::Filter& filter, filter_subject subject) const {
    return std::ranges::any_of(filter.terms, [&](const events::ConditionSpec& term) {
      return term.built_in == subject && !is_declared(term);
    });
  }
  bool compares_time(const events::Filter& filter) const {
    return std::ranges::any_of(filter.terms, [&](const events::ConditionSpec& term) {
      return term.built_in && events::call_time_of(*term.built_in) && !is_declared(term);
    });
  }
  void pair_calls_for(const events::Filter& filter) {
    if (request_.probes.static_probes || request_.program || !request_.spans.empty()) return;
    // Where errno is, is known only at the entry.
    const bool needs_call = compares_time(filter) || compares(filter, COMPARE_ERRNO);
    track_compared(filter);
    // A condition on the result of an entry is one on the call.
    const bool has_result =
        compares(filter, COMPARE_FAILED) ||
        std::ranges::any_of(filter.terms, [&](const events::ConditionSpec& term) {
          return term.path && term.path->is_of_result() && !is_declared(term);
        });
    const bool probes_entries = !options_.entry && !options_.on_return && !request_.graph;
    if (!needs_call && !(has_result && probes_entries)) return;
    capture_.pair_calls = true;
    request_.probes.returns_are_optional = false;
  }

  // A comparison is a condition, everything else names a function.
  Result<void> read_triggers() {
    if (!options_.keep) return {};
    trace::KeepSpec& keep = request_.keep.emplace();
    if (const auto number = events::parse_unsigned(*options_.keep); number && *number > 0)
      keep.events = *number;
    else if (const auto time = parse_duration(*options_.keep); time && time->count() > 0)
      keep.time = *time;
    else
      return wrong(fmt::format("invalid value '{}' for --keep (expected a time such as 5s, 200ms, "
                               "or a number of events)",
                               *options_.keep));
    const auto read_set = [&](const std::string& path) {
      return read_start(path, events::max_set_file, workstation_);
    };
    for (const std::string& text : options_.until) {
      auto condition = events::parse_filter(text, read_set, "--until");
      if (!condition && has_comparison(text))
        return wrong_value("--until: ", std::move(condition).error());
      if (!condition || is_bare_value(*condition)) {
        if (auto read = read_recording_state("--until: ", {text}, request_.probes.until); !read)
          return read;
        continue;
      }
      pair_calls_for(*condition);
      keep.conditions.push_back(std::move(*condition));
    }
    return {};
  }

  // Whether a text that is not a condition was meant to be one: names of functions have operators
  // only in C++, and pairs of '<' and '>' around the arguments of templates.
  static bool has_comparison(std::string_view text) {
    if (text.contains("operator")) return false;
    for (const std::string_view each : {"&&", "||", "==", "!=", "<=", ">=", " in {", " in @"})
      if (text.contains(each)) return true;
    return std::ranges::count(text, '<') != std::ranges::count(text, '>');
  }

  std::unexpected<Error> wrong_value(const std::string& option, Error error) const {
    return fail(error_of_value(parser_, option, std::move(error)));
  }

  const OptionParser& parser_;
  const CaptureOptions& options_;
  Workstation& workstation_;
  trace::AttachRequest& request_;
  events::CaptureSpec& capture_;
};

// The numbers in the help and the man page (options.toml).
static_assert(events::default_stack_bytes == 16384 && MIN_STACK_BYTES == 256 &&
              MAX_STACK_BYTES == 65528);

class StackApplication {
public:
  StackApplication(const OptionParser& parser, const StackOptions& options,
                   const CommonOptions& common, trace::AttachRequest& request)
      : parser_(parser), options_(options), common_(common), request_(request) {}

  Result<void> apply() {
    events::StackWalk walk = request_.capture.stack;
    if (options_.how) // the parser has checked it
      walk =
          *options_.how == "fp" ? events::StackWalk::frame_pointers : events::StackWalk::frame_data;
    const bool has_spans = !request_.spans.empty();
    if (has_spans && options_.size)
      return wrong("--stack-size cannot be combined with --span: a copy of the stack does not fit "
                   "into the table of open spans");
    if (has_spans && options_.unwind_on == "host")
      return wrong("--unwind-on host cannot be combined with --span: the kernel walks its stacks");
    if (has_spans && walk == events::StackWalk::frame_data) {
      walk = events::StackWalk::frame_pointers;
      request_.stacks.forced_frame_pointers = true;
    }
    if (request_.capture.groups.has(BY_STACK)) {
      request_.stacks.forced_frame_pointers |= walk != events::StackWalk::frame_pointers;
      if (has_spans) walk = events::StackWalk::frame_pointers;
    }
    // Rounded up: the kernel copies words of 8 bytes.
    if (options_.size)
      request_.capture.stack_bytes = static_cast<std::uint32_t>((*options_.size + 7) / 8 * 8);
    if (request_.capture.caller && walk == events::StackWalk::none) {
      // A static probe is anywhere in its function.
      walk =
          request_.probes.static_probes ? events::StackWalk::frame_data : events::StackWalk::caller;
      request_.capture.shows_stacks = false;
    }
    // The user's program may write stacks to a map.
    const bool is_copied =
        copies_stacks(walk) || (walk == events::StackWalk::none && request_.program);
    if (options_.size && copies_at_waits(walk) && *options_.size > events::max_waiting_stack_bytes)
      return wrong(fmt::format("--stack-size is at most {} with --off-cpu, which copies a stack at "
                               "each wait",
                               events::max_waiting_stack_bytes));
    if (options_.size && !is_copied) return wrong("--stack-size needs --stack=dwarf");
    auto exports = list_exports(parser_, options_.files, common_);
    if (!exports) return fail(std::move(exports).error());
    request_.exports = std::move(*exports);
    // The kernel walks frame pointers itself, so it can also count these stacks.
    const bool counted =
        request_.aggregates.counts && walk == events::StackWalk::frame_pointers && !has_spans;
    request_.capture.count_stacks = counted;
    request_.capture.stack = counted ? events::StackWalk::none : walk;
    request_.capture.raw_stacks = options_.unwind_on == "host";
    request_.stacks.hides_events = replace_events(options_.files, common_) && !request_.program;
    return options_.weight ? read_weight(*options_.weight) : Result<void>();
  }

private:
  Result<void> read_weight(const std::string& text) {
    events::CaptureSpec& capture = request_.capture;
    auto value = events::parse_summed_value(text);
    if (!value) return fail(error_of_value(parser_, "--weight: ", std::move(value).error()));
    // The result and the latency are known at the return.
    const auto time = events::find_time(text);
    capture.tracks_waits |= events::needs_waits(time);
    capture.tracks_causes |= events::needs_causes(time);
    if ((value->uses_result() || time) && !request_.probes.static_probes && !capture.on_return &&
        request_.spans.empty()) {
      capture.pair_calls = true;
      request_.probes.returns_are_optional = false;
    }
    capture.weight = request_.stacks.weight = std::move(*value);
    return {};
  }

  std::unexpected<Error> wrong(const std::string& what) const {
    return fail(parser_.usage_error(what));
  }

  const OptionParser& parser_;
  const StackOptions& options_;
  const CommonOptions& common_;
  trace::AttachRequest& request_;
};

} // namespace

void bind_capture_options(OptionParser& parser, CaptureOptions& options,
                          trace::AttachRequest& request, ProbeKind words) {
  if (words == ProbeKind::functions) bind_return_options(parser, options);
  parser.bind("--args", options.arguments);
  if (words == ProbeKind::functions) parser.bind("--prototypes", options.prototypes);
  if (words == ProbeKind::functions)
    parser.bind("--args-depth", request.capture.typed_depth,
                CountReader{.option = "--args-depth",
                            .expected = fmt::format("1 to {}", events::max_typed_depth),
                            .most = events::max_typed_depth});
  parser.bind("--if", options.conditions);
  parser.bind("--max-string", options.max_string_bytes,
              CountReader{.option = "--max-string",
                          .expected = fmt::format("1 to {} bytes", events::max_argument_bytes),
                          .most = events::max_argument_bytes});
  parser.bind("--regs", request.capture.registers);
  parser.bind("--count", request.aggregates.counts);
  parser.bind("--per-process", request.capture.count_by_process);
  parser.bind("--by", options.by);
  parser.bind("--histogram", request.aggregates.histograms);
  parser.bind("--measure", options.measured);
  parser.bind("--interval", request.aggregates.interval, DurationReader{"--interval"});
  parser.bind("--top", request.aggregates.top, CountReader{"--top", "a number of functions"});
  parser.bind("--exclude", request.probes.excluded_names);
  parser.bind("--expect", request.limits.expected_hits,
              CountReader{"--expect", "a number of hits"});
  parser.bind("--sample", options.sample);
  parser.bind("--max-rate", options.max_rate);
  parser.bind("--start-on", options.start_on);
  parser.bind("--stop-on", options.stop_on);
  parser.bind("--on-hit", options.on_hit);
  parser.bind("--keep", options.keep);
  parser.bind("--until", options.until);
}

Result<void> add_conditions(events::Filter& filter, std::span<const std::string> texts,
                            Workstation& workstation, std::string_view option) {
  const auto read_set = [&](const std::string& path) {
    return read_start(path, events::max_set_file, workstation);
  };
  for (const std::string& text : texts)
    if (auto added = add_filter(filter, text, read_set, option); !added) return added;
  return {};
}

Result<void> apply(const OptionParser& parser, const CaptureOptions& options,
                   Workstation& workstation, trace::AttachRequest& request) {
  return CaptureApplication(parser, options, workstation, request).apply();
}

CountReader graph_depth_reader() {
  return {.option = "--graph-depth", .expected = "a number of levels", .most = 1000000};
}

void bind_stack_files(OptionParser& parser, StackFiles& files) {
  parser.bind("--folded", files.folded);
  parser.bind("--flamegraph", files.flame_graph);
}

Result<std::vector<output::ExportRequest>>
list_exports(const OptionParser& parser, const StackFiles& files, const CommonOptions& common) {
  std::vector<output::ExportRequest> exports = common.exports;
  const auto add = [&](const auto& path, output::ExportFormat format, const char* option) {
    if (path) exports.push_back({.path = *path, .format = format, .option = option});
  };
  add(files.folded, output::ExportFormat::folded, "--folded");
  add(files.flame_graph, output::ExportFormat::flame_graph, "--flamegraph");
  if (auto checked = check_exports(parser, exports, common.output); !checked)
    return fail(std::move(checked).error());
  return exports;
}

bool replace_events(const StackFiles& files, const CommonOptions& common) {
  return (files.folded || files.flame_graph) && !common.json && !common.output;
}

void bind_stack_options(OptionParser& parser, StackOptions& options,
                        trace::AttachRequest& request) {
  parser.bind("--stack", options.how);
  parser.bind(
      "--stack-size", options.size,
      CountReader{.option = "--stack-size",
                  .expected = fmt::format("{} to {} bytes", MIN_STACK_BYTES, MAX_STACK_BYTES),
                  .least = MIN_STACK_BYTES,
                  .most = MAX_STACK_BYTES});
  parser.bind("--keep-stacks", request.stacks.save_dir);
  parser.bind("--unwind-on", options.unwind_on);
  bind_stack_files(parser, options.files);
  parser.bind("--flamegraph-view", request.stacks.view, parse_view);
  parser.bind("--weight", options.weight);
  parser.bind("--lines", request.capture.source_lines);
  parser.bind("--caller", request.capture.caller);
}

Result<void> apply(const OptionParser& parser, const StackOptions& options,
                   const CommonOptions& common, trace::AttachRequest& request) {
  return StackApplication(parser, options, common, request).apply();
}

std::string command_line(std::string_view command, std::span<const std::string_view> arguments) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "-_=+:,./@%";
  std::string text = "uprobectl " + std::string(command);
  for (const std::string_view argument : arguments) {
    text += ' ';
    if (!argument.empty() && argument.find_first_not_of(plain) == std::string_view::npos) {
      text += argument;
      continue;
    }
    text += '\'';
    for (const char each : argument) text += each == '\'' ? "'\\''" : std::string(1, each);
    text += '\'';
  }
  return text;
}

} // namespace uprobectl::cli
