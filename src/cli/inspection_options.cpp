#include "inspection_options.hpp"

#include "duration.hpp"
#include "numbers.hpp"

namespace uprobectl::cli {

namespace {

// Static probes are places without a way back.
void add_return_options(OptionParser& parser, InspectionOptions& options) {
  parser.flag("--entry", options.entry, "probe where functions begin (the default)");
  parser.flag("-r,--return", options.on_return,
              "probe where they return; with --entry both, alone instead");
  parser.text("--return-at", options.return_at, "HOW",
              "auto and ret: the function's exits; trampoline: the kernel's return probes, which "
              "miss calls nested deeper than 64, uncounted with --return alone");
  parser.flag("--latency", options.latency,
              "one event a call, when it returns, with how long it took");
  parser.text("--min-latency", options.min_latency, "D",
              "only calls that took so long: 10ms, 50us");
}

} // namespace

void add_inspection_options(OptionParser& parser, InspectionOptions& options, ProbeWords words) {
  const bool of_functions = words == ProbeWords::functions;
  if (of_functions) add_return_options(parser, options);
  parser.texts("--args", options.arguments, of_functions ? "[FUNCTION=]SPEC" : "[PROBE=]SPEC",
               of_functions ? "show these arguments: NAME:TYPE[@ARG[+OFF]], …; see the man page"
                            : "types of arguments, as in 0:str, or NAME:TYPE[@ARG[+OFF]], …");
  parser.texts("--if", options.conditions, "CONDITION",
               of_functions ? "only hits for which it holds: 'arg1==3', 'ret<0'; repeatable"
                            : "only hits for which it holds: 'arg1==3'; repeatable");
  parser.text("--max-string", options.longest_text, "N",
              "read at most N bytes of a string (default 128, at most 4096)");
  parser.flag("--regs", options.registers, "show all registers");
  parser.flag("--count", options.count, "show how often each was hit instead of events");
  parser.flag("--per-process", options.per_process, "count processes for themselves");
  parser.flag("--histogram", options.histogram,
              of_functions ? "show how latencies are distributed instead of events"
                           : "show how the values of --measure are distributed instead of events");
  parser.text("--measure", options.measured, "VALUE",
              of_functions ? "the histogram is that of argN or ret instead of latencies"
                           : "what the histogram is of: argN or a register");
  parser.text("--interval", options.interval, "D", "show counts and histograms this often");
  parser.text("--top", options.top, "N", "show only the N that were hit most");
  parser.texts("--exclude", options.excluded, "PATTERN",
               of_functions ? "leave out functions that match; repeatable"
                            : "leave out probes whose PROVIDER:NAME matches; repeatable");
  parser.text("--expect", options.expected, "N", "fail when a probe has fewer than N hits");
}

namespace {

// The first option that only the built-in program can serve.
std::optional<std::string> builtin_only(const InspectionOptions& options) {
  if (!options.arguments.empty()) return "--args";
  if (!options.conditions.empty()) return "--if";
  if (options.registers) return "--regs";
  if (options.latency) return "--latency";
  if (options.min_latency) return "--min-latency";
  if (options.count) return "--count";
  if (options.histogram) return "--histogram";
  return std::nullopt;
}

std::optional<std::string> orphan(const InspectionOptions& options) {
  const bool sums = options.count || options.histogram;
  if (options.per_process && !options.count) return "--per-process needs --count";
  if (options.measured && !options.histogram) return "--measure needs --histogram";
  if (options.interval && !sums) return "--interval needs --count or --histogram";
  if (options.top && !sums) return "--top needs --count or --histogram";
  if (options.registers && sums) return "--regs shows registers of events, of which there are none";
  if (options.measured && options.latency)
    return "--latency and --measure exclude each other: a histogram is of one of them";
  return std::nullopt;
}

class Application {
public:
  Application(const OptionParser& parser, const InspectionOptions& options, AttachRequest& request)
      : parser_(parser), options_(options), request_(request), inspection_(request.inspection) {}

  Result<void> apply() {
    set_moments();
    if (auto chosen = choose_return(); !chosen) return chosen;
    if (auto read = read_values(); !read) return read;
    return read_numbers();
  }

private:
  std::unexpected<Error> wrong(const std::string& what) const {
    return fail(parser_.usage_error(what));
  }

  void set_moments() {
    request_.counts = options_.count;
    request_.histograms = options_.histogram;
    request_.excluded = options_.excluded;
    inspection_.on_return = options_.on_return;
    inspection_.on_entry = options_.entry || !options_.on_return;
    inspection_.send_events = !options_.count && !options_.histogram;
    inspection_.count_by_process = options_.per_process;
    inspection_.registers = options_.registers;
    inspection_.measure_latency = options_.histogram && !options_.measured;
    inspection_.pair_calls =
        options_.latency || options_.min_latency || inspection_.measure_latency;
  }

  Result<void> choose_return() {
    const std::string how = options_.return_at.value_or("auto");
    if (how == "auto")
      request_.return_at = ReturnAt::automatic;
    else if (how == "trampoline")
      request_.return_at = ReturnAt::trampoline;
    else if (how == "ret")
      request_.return_at = ReturnAt::exits;
    else
      return wrong("'" + how + "' is no --return-at, it is auto, trampoline or ret");
    return {};
  }

  Result<void> read_values() {
    for (const std::string& text : options_.arguments) {
      auto list = parse_arguments(text);
      if (!list) return wrong_value("--args: ", std::move(list).error());
      inspection_.arguments.push_back(std::move(*list));
    }
    for (const std::string& text : options_.conditions) {
      auto condition = parse_condition(text);
      if (!condition) return wrong_value("--if: ", std::move(condition).error());
      inspection_.conditions.push_back(std::move(*condition));
    }
    if (!options_.measured) return {};
    inspection_.measured = parse_source_name(*options_.measured);
    if (!inspection_.measured)
      return wrong("'" + *options_.measured +
                   "' is no --measure, it is arg0, arg1, …, ret or a "
                   "register");
    // Where nobody says what to probe, it is where the value is known.
    const bool returned = inspection_.measured->kind == ArgumentSource::Kind::returned;
    if (returned && request_.static_probes) return wrong("a static probe returns nothing");
    if (!returned && inspection_.pair_calls)
      return wrong("--measure " + *options_.measured +
                   " takes the value where the call begins, and "
                   "--min-latency is known where it ends");
    if (returned && !options_.entry && !inspection_.pair_calls) {
      inspection_.on_return = true;
      inspection_.on_entry = false;
    }
    return {};
  }

  // The parser's own words, and where there is more help where they are about the command line.
  std::unexpected<Error> wrong_value(const std::string& option, Error error) const {
    if (error.kind != ErrorKind::usage) {
      error.message.insert(0, option);
      return fail(std::move(error));
    }
    Error usage = parser_.usage_error(option + error.message);
    usage.hints.insert(usage.hints.begin(), error.hints.begin(), error.hints.end());
    return fail(std::move(usage));
  }

  Result<void> read_numbers() {
    if (options_.min_latency) {
      const auto least = parse_duration(*options_.min_latency);
      if (!least) return wrong("--min-latency: " + least.error().message);
      inspection_.min_latency = *least;
    }
    if (options_.interval) {
      const auto interval = parse_duration(*options_.interval);
      if (!interval) return wrong("--interval: " + interval.error().message);
      request_.interval = *interval;
    }
    if (options_.top) {
      const auto top = parse_count(*options_.top);
      if (!top) return wrong("--top: '" + *options_.top + "' is no number of functions");
      request_.top = *top;
    }
    if (options_.expected) {
      request_.expected_hits = parse_count(*options_.expected);
      if (!request_.expected_hits)
        return wrong("--expect: '" + *options_.expected + "' is no number of hits");
    }
    if (options_.longest_text) {
      const auto bytes = parse_count(*options_.longest_text);
      if (!bytes || *bytes > most_bytes)
        return wrong("--max-string: '" + *options_.longest_text + "' is no number of bytes, 1 to " +
                     std::to_string(most_bytes));
      inspection_.longest_text = static_cast<std::uint32_t>(*bytes);
    }
    return {};
  }

  const OptionParser& parser_;
  const InspectionOptions& options_;
  AttachRequest& request_;
  Inspection& inspection_;
};

} // namespace

Result<void> apply(const OptionParser& parser, const InspectionOptions& options,
                   AttachRequest& request) {
  if (request.program)
    if (const auto option = builtin_only(options))
      return fail(parser.usage_error(*option + " is for the built-in program, not for yours"));
  if (const auto wrong = orphan(options)) return fail(parser.usage_error(*wrong));
  if (request.static_probes && options.histogram && !options.measured)
    return fail(parser.usage_error("--histogram needs --measure: static probes have no latency"));
  return Application(parser, options, request).apply();
}

} // namespace uprobectl::cli
