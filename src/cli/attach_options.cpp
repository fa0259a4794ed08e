#include "attach_options.hpp"

#include "duration.hpp"
#include "numbers.hpp"
#include "record_file.hpp"

namespace uprobectl::cli {

namespace {

// "-- COMMAND ARGS…", or -c with both in one text.
Result<std::vector<std::string>>
command_of(const OptionParser& parser, const AttachOptions& options, const Arguments& arguments) {
  const auto& typed = arguments.after_dashes;
  if (!options.command_line) return std::vector<std::string>(typed.begin(), typed.end());
  if (!typed.empty())
    return fail(parser.usage_error("there are two commands: that of -c and that behind --"));
  auto words = split_words(*options.command_line);
  if (!words) return fail(parser.usage_error("-c: " + words.error().message));
  if (words->empty()) return fail(parser.usage_error("-c: the command is empty"));
  return words;
}

Result<std::optional<Mechanism>> parse_mechanism(const std::string& name) {
  if (name == "auto") return std::nullopt;
  for (const Mechanism mechanism :
       {Mechanism::multi, Mechanism::perf, Mechanism::perf_ioctl, Mechanism::tracefs})
    if (name == to_string(mechanism)) return mechanism;
  return fail(ErrorKind::usage, "'" + name +
                                    "' is no --mechanism, it is auto, multi, perf, perf-ioctl or "
                                    "tracefs");
}

Result<std::optional<RecordBuffer>> parse_buffer(const std::string& name) {
  if (name == "auto") return std::nullopt;
  for (const RecordBuffer buffer : {RecordBuffer::ring, RecordBuffer::perf})
    if (name == to_string(buffer)) return buffer;
  return fail(ErrorKind::usage, "'" + name + "' is no --buffer, it is auto, ring or perf");
}

} // namespace

Result<AttachRequest> make_attach_request(const OptionParser& parser, const AttachOptions& options,
                                          const CommonOptions& common, ProbeWords words,
                                          const Arguments& arguments) {
  auto program = make_program_request(parser, options.program);
  if (!program) return fail(std::move(program).error());
  const bool by_sections = options.program.object && arguments.positionals.empty();
  auto line = by_sections ? RequestLine() : request_of(parser, arguments.positionals);
  if (!line) return fail(std::move(line).error());
  AttachRequest request;
  request.target = std::move(line->target);
  request.functions = std::move(line->functions);
  request.program = std::move(*program);
  request.static_probes = words == ProbeWords::static_probes;
  const bool directed = options.inspection.entry || options.inspection.on_return;
  if (request.program) request.program->direction_by_section = !directed;
  if (by_sections && directed)
    return fail(parser.usage_error("without TARGET the object's sections say what is probed, "
                                   "--entry and --return do not"));
  if (auto applied = apply(parser, options.inspection, request); !applied)
    return fail(std::move(applied).error());
  if (auto applied = apply(parser, options.stack, common, request); !applied)
    return fail(std::move(applied).error());
  request.keep_going = options.keep_going;
  request.dry_run = options.dry_run;
  request.resolve_options = options.resolve;
  request.target_options.debug_places = options.debug_places;
  auto dex = make_dex_search(options.dex);
  if (!dex) return fail(std::move(dex).error());
  request.target_options.dex = std::move(*dex);
  request.target_options.oatdump = options.oatdump;

  auto command = command_of(parser, options, arguments);
  if (!command) return fail(std::move(command).error());
  request.command = std::move(*command);
  if (request.command.empty() && options.forward_exit)
    return fail(parser.usage_error("--forward-exit needs a command"));
  if (request.command.empty() && options.command_output)
    return fail(parser.usage_error("--command-output needs a command"));
  if (options.command_output) {
    const bool inherits = *options.command_output == "inherit";
    request.command_output = {.to = inherits ? CommandOutput::To::inherit : CommandOutput::To::file,
                              .path = inherits ? "" : *options.command_output};
  }
  if (auto applied = apply(parser, options.processes, request); !applied)
    return fail(std::move(applied).error());

  // A command without a duration is watched to its end.
  const std::string duration =
      options.duration.value_or(request.command.empty() ? "10s" : "forever");
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
  auto buffer = parse_buffer(options.buffer.value_or("auto"));
  if (!buffer) return fail(parser.usage_error(std::move(buffer).error().message));
  request.buffer = *buffer;
  return request;
}

namespace {

void add_naming_options(OptionParser& parser, ResolveOptions& resolve) {
  parser.flag("--all", resolve.all, "probe every place of an ambiguous name");
  parser.flag("--clones", resolve.clones, "probe the compiler's clones of a function, too");
  parser.flag("--unsafe", resolve.unsafe, "allow +N beyond a function and inside an instruction");
}

} // namespace

void add_attach_options(OptionParser& parser, AttachOptions& options, ProbeWords words) {
  parser.text("-d,--duration", options.duration, "D",
              "how long: 10s, 500ms, 2m or forever (default 10s, a command's life)");
  add_process_options(parser, options.processes);
  parser.text("-c", options.command_line, "COMMAND",
              "start the command, probe only it and end with it; or behind --");
  parser.flag("--forward-exit", options.forward_exit, "end with the command's exit status");
  parser.text("--command-output", options.command_output, "FILE",
              "write the command's stdout to FILE; inherit: to ours (default: to stderr where "
              "records go to stdout, unless that is a terminal)");
  add_inspection_options(parser, options.inspection, words);
  add_stack_options(parser, options.stack);
  parser.text("-n,--max-events", options.max_events, "N", "end after N events");
  parser.text("--mechanism", options.mechanism, "HOW",
              "auto, multi (Linux 6.6), perf (Linux 5.15), perf-ioctl or tracefs");
  parser.text("--buffer", options.buffer, "HOW",
              "how events come out of the kernel: auto, ring (Linux 5.8) or perf");
  parser.flag("--keep-going", options.keep_going,
              words == ProbeWords::functions ? "when a FUNCTION cannot be probed, probe the others"
                                             : "when one cannot be probed, probe the others");
  if (words == ProbeWords::functions) add_naming_options(parser, options.resolve);
  add_instruction_option(parser, options.instruction);
  parser.flag("--dry-run", options.dry_run, "print the probe points, attach nothing");
  add_program_options(parser, options.program);
  add_debug_options(parser, options.debug_places);
  if (words == ProbeWords::static_probes) return;
  add_dex_options(parser, options.dex);
  add_oatdump_option(parser, options.oatdump);
}

ExitCode attach(const AttachRequest& request, Console& console, bool forward_exit) {
  const auto outcome = run_attach(request, console.out(), console.sink(), console.reporter());
  if (!outcome) {
    const bool only_one = request.functions.size() == 1;
    const auto target = request.target.empty() ? std::nullopt : std::optional(request.target);
    console.fail(outcome.error(), target,
                 only_one ? std::optional(request.functions.front()) : std::nullopt);
    const ExitCode code = console.finish();
    return outcome.error().kind == ErrorKind::interrupted ? ExitCode::interrupted : code;
  }
  const ExitCode code = console.finish();
  if (code != ExitCode::done || outcome->some_failed || outcome->too_few_hits)
    return ExitCode::failed;
  const int forwarded = forward_exit ? outcome->command_status.value_or(0) : 0;
  return static_cast<ExitCode>(forwarded);
}

} // namespace uprobectl::cli
