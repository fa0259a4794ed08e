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

// nullopt for auto.
std::optional<Mechanism> mechanism_of(std::string_view name) {
  for (const Mechanism mechanism :
       {Mechanism::multi, Mechanism::perf, Mechanism::perf_ioctl, Mechanism::tracefs})
    if (name == to_string(mechanism)) return mechanism;
  return std::nullopt;
}

std::optional<RecordBuffer> buffer_of(std::string_view name) {
  for (const RecordBuffer buffer : {RecordBuffer::ring, RecordBuffer::perf})
    if (name == to_string(buffer)) return buffer;
  return std::nullopt;
}

Result<std::optional<std::chrono::nanoseconds>> parse_run_time(const std::string& text) {
  if (text == "forever") return std::nullopt;
  return parse_duration(text);
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
  if (options.duration)
    request.duration = *options.duration;
  else if (request.command.empty())
    request.duration = std::chrono::seconds(10);
  request.max_events = options.max_events;
  request.mechanism = mechanism_of(options.mechanism.value_or("auto"));
  request.buffer = buffer_of(options.buffer.value_or("auto"));
  return request;
}

namespace {

void bind_naming_options(OptionParser& parser, ResolveOptions& resolve) {
  parser.bind("--all", resolve.all);
  parser.bind("--clones", resolve.clones);
  parser.bind("--unsafe", resolve.unsafe);
}

} // namespace

void bind_attach_options(OptionParser& parser, AttachOptions& options, ProbeWords words) {
  parser.bind("--duration", options.duration, parse_run_time);
  bind_process_options(parser, options.processes);
  parser.bind("-c", options.command_line);
  parser.bind("--forward-exit", options.forward_exit);
  parser.bind("--command-output", options.command_output);
  bind_inspection_options(parser, options.inspection, words);
  bind_stack_options(parser, options.stack);
  parser.bind("--max-events", options.max_events,
              CountReader{.mistake = "'{}' is no number of events"});
  parser.bind("--mechanism", options.mechanism);
  parser.bind("--buffer", options.buffer);
  parser.bind("--keep-going", options.keep_going);
  if (words == ProbeWords::functions) bind_naming_options(parser, options.resolve);
  bind_instruction_option(parser, options.instruction);
  parser.bind("--dry-run", options.dry_run);
  bind_program_options(parser, options.program);
  bind_debug_options(parser, options.debug_places);
  if (words == ProbeWords::static_probes) return;
  bind_dex_options(parser, options.dex);
  bind_oatdump_option(parser, options.oatdump);
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
