#include "commands.hpp"
#include "console.hpp"
#include "duration.hpp"
#include "numbers.hpp"
#include "record_file.hpp"
#include "uprobectl/session.hpp"

namespace uprobectl::cli {

namespace {

struct AttachOptions {
  std::optional<std::string> duration;
  std::vector<std::string> pids;
  bool entry = false;
  bool on_return = false;
  std::optional<std::string> max_events;
  std::optional<std::string> mechanism;
  bool keep_going = false;
  bool dry_run = false;
  ResolveOptions resolve = {};
  bool instruction = false;
  std::vector<std::string> debug_places;
};

Result<std::optional<Mechanism>> parse_mechanism(const std::string& name) {
  if (name == "auto") return std::nullopt;
  for (const Mechanism mechanism : {Mechanism::multi, Mechanism::perf})
    if (name == to_string(mechanism)) return mechanism;
  return fail(ErrorKind::usage, "'" + name + "' is no --mechanism, it is auto, multi or perf");
}

Result<AttachRequest> make_request(const OptionParser& parser, const AttachOptions& options,
                                   const Arguments& arguments) {
  auto line = request_of(parser, arguments);
  if (!line) return fail(std::move(line).error());
  AttachRequest request;
  request.target = std::move(line->target);
  request.functions = std::move(line->functions);
  request.on_return = options.on_return;
  request.on_entry = options.entry || !options.on_return;
  request.keep_going = options.keep_going;
  request.dry_run = options.dry_run;
  request.resolve_options = options.resolve;
  request.target_options.debug_places = options.debug_places;

  auto pids = parse_pids(options.pids);
  if (!pids) return fail(parser.usage_error(std::move(pids).error().message));
  request.pids = std::move(*pids);

  const std::string duration = options.duration.value_or("10s");
  if (duration != "forever") {
    const auto parsed = parse_duration(duration);
    if (!parsed) return fail(parser.usage_error(parsed.error().message));
    request.duration = *parsed;
  }
  if (options.max_events) {
    request.max_events = parse_count(*options.max_events);
    if (!request.max_events)
      return fail(parser.usage_error("'" + *options.max_events + "' is no number of events"));
  }
  auto mechanism = parse_mechanism(options.mechanism.value_or("auto"));
  if (!mechanism) return fail(parser.usage_error(std::move(mechanism).error().message));
  request.mechanism = *mechanism;
  return request;
}

void add_options(OptionParser& parser, AttachOptions& options) {
  parser.text("-d,--duration", options.duration, "D",
              "how long: 10s, 500ms, 2m or forever (default 10s)");
  parser.texts("-p,--pid", options.pids, "PID",
               "only this process; repeatable, or 1,2,3 (default: every process)");
  parser.flag("--entry", options.entry, "probe where functions begin (the default)");
  parser.flag("-r,--return", options.on_return,
              "probe where they return; with --entry both, alone instead");
  parser.text("-n,--max-events", options.max_events, "N", "end after N events");
  parser.text("--mechanism", options.mechanism, "HOW",
              "auto, multi (Linux 6.6) or perf (Linux 5.15)");
  parser.flag("--keep-going", options.keep_going,
              "when a FUNCTION cannot be probed, probe the others");
  parser.flag("--all", options.resolve.all, "probe every place of an ambiguous name");
  parser.flag("--clones", options.resolve.clones, "probe the compiler's clones of a function, too");
  parser.flag("--unsafe", options.resolve.unsafe,
              "allow +N beyond a function and inside an instruction");
  add_instruction_option(parser, options.instruction);
  parser.flag("--dry-run", options.dry_run, "print the probe points, attach nothing");
  add_debug_options(parser, options.debug_places);
}

} // namespace

ExitCode run_attach(const std::vector<std::string>& arguments) {
  OptionParser parser(
      {.command = "attach",
       .usage = "attach [options] TARGET FUNCTION…",
       .description =
           "Probes each FUNCTION for a fixed time and prints one line a call:\n"
           "TIME PID TID COMM FUNCTION ARGUMENTS [= RETURN]\n"
           "TARGET and FUNCTION are those of resolve. Needs root, or CAP_BPF and CAP_PERFMON.",
       .examples = "  uprobectl attach -d 2s libc.so.6 getpid --dry-run\n"
                   "  uprobectl attach -p $$ --entry --return -d 1s libc.so.6 read write\n"});
  CommonOptions common;
  add_common_options(parser, common);
  AttachOptions options;
  add_options(parser, options);
  const auto parsed = parse_or_finish(parser, common, arguments);
  if (!parsed) return parsed.error();
  options.resolve.instructions = instructions_of(common, options.instruction);
  auto request = make_request(parser, options, *parsed);
  if (!request) return finish_with(request.error(), common);
  const auto console = Console::open(common, {.instruction = options.instruction});
  if (!console) return finish_with(console.error(), common);

  const auto outcome =
      run_attach(*request, (*console)->out(), (*console)->sink(), (*console)->reporter());
  if (!outcome) {
    const bool only_one = request->functions.size() == 1;
    (*console)->fail(outcome.error(), request->target,
                     only_one ? std::optional(request->functions.front()) : std::nullopt);
    const ExitCode code = (*console)->finish();
    return outcome.error().kind == ErrorKind::interrupted ? ExitCode::interrupted : code;
  }
  const ExitCode code = (*console)->finish();
  return outcome->some_failed ? ExitCode::failed : code;
}

} // namespace uprobectl::cli
