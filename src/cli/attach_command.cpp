// SPDX-License-Identifier: Apache-2.0
// The subcommands attach and usdt attach: the same options for functions and for static probes.
#include "capture_options.hpp"
#include "console.hpp"
#include "debuginfod.hpp"
#include "object_options.hpp"
#include "option_parser.hpp"
#include "option_values.hpp"
#include "plan_options.hpp"
#include "requests.hpp"
#include "saving.hpp"
#include "symbol_plans.hpp"
#include "target_options.hpp"
#include "task_options.hpp"
#include "trace/trace.hpp"
#include "util/shell_words.hpp"
#include "util/text.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <ranges>

namespace uprobectl::cli {

namespace {

// The options for a BPF program of the user. Others are read into `request`.
struct ProgramOptions {
  trace::UserProgramRequest request;
  std::vector<std::string> objects;
  std::vector<std::string> pinned;
  std::vector<std::string> names;
  ObjectOptions set_up;
  std::vector<std::string> record_types;
  std::vector<std::string> shown_as;
};

// Options that are not read straight into the request.
struct AttachOptions {
  // Outer nullopt: not given; inner nullopt: forever.
  std::optional<std::optional<std::chrono::nanoseconds>> duration;
  CloneOptions clones = {};
  bool instruction = false;
  std::vector<std::string> debug_paths;
  DexArguments dex;
  std::optional<std::string> command_line;
  bool forward_exit = false;
  bool live = false;
  std::optional<std::string> command_output;
  std::optional<std::string> save;
  std::optional<std::string> system_trace; // categories
  PlanOptions plan;
  ProgramOptions program;
  CaptureOptions capture;
  StackOptions stack;
  std::vector<std::string> processes; // of -p
};

void bind_process_options(OptionParser& parser, trace::AttachRequest& request) {
  parser.bind("--app", request.probes.target_options.app);
  parser.bind("--follow", request.processes.follow);
  parser.bind("--uid", request.processes.user,
              CountReader{.option = "--uid",
                          .expected = "a number",
                          .least = 0,
                          .most = std::numeric_limits<std::uint32_t>::max()});
  parser.bind("--cgroup", request.processes.cgroup);
  parser.bind("--all-processes", request.processes.all);
}

// Sets the processes of -p, and checks the request, which has everything else. usage if options
// cannot be combined.
Result<void> set_processes(const OptionParser& parser, const std::vector<std::string>& processes,
                           trace::AttachRequest& request) {
  auto words = parse_processes(processes);
  if (!words) return fail(parser.usage_error(std::move(words).error().message));
  request.processes.pids = std::move(words->pids);
  request.processes.names = std::move(words->names);
  if (const auto checked = check_request(request); !checked) {
    Error error = parser.usage_error(checked.error().message);
    error.hints.insert(error.hints.begin(), checked.error().hints.begin(),
                       checked.error().hints.end());
    return fail(std::move(error));
  }
  return {};
}

Result<std::uint64_t> parse_cookie(const std::string& text) {
  const auto cookie = events::parse_unsigned(text);
  if (!cookie)
    return fail(ErrorKind::usage, "invalid value '" + text + "' for --cookie (expected a number)");
  return *cookie;
}

void bind_program_options(OptionParser& parser, ProgramOptions& options) {
  parser.bind("--object", options.objects);
  parser.bind("--program", options.pinned);
  parser.bind("--program-name", options.names);
  bind_object_options(parser, options.set_up);
  parser.bind("--share-maps", options.request.shares_maps);
  parser.bind("--map", options.request.maps);
  parser.bind("--record", options.record_types);
  parser.bind("--as", options.shown_as);
  parser.bind("--clear", options.request.clears_maps);
  parser.bind("--cookie", options.request.cookie, parse_cookie);
  parser.bind("--printk", options.request.printk);
}

// "NAME" or "NAME=[TARGET:]FUNCTION". The names of programs are those of functions of C.
Result<std::vector<trace::ProgramChoice>>
parse_program_choices(const std::vector<std::string>& typed) {
  std::vector<trace::ProgramChoice> choices;
  for (const std::string& text : typed) {
    const auto equals = std::min(text.find('='), text.size());
    if (equals == 0 || equals + 1 == text.size())
      return fail(ErrorKind::usage,
                  fmt::format("invalid value '{}' for --program-name (expected NAME or "
                              "NAME=[TARGET:]FUNCTION)",
                              text));
    choices.push_back({.name = text.substr(0, equals),
                       .function = text.substr(std::min(equals + 1, text.size()))});
  }
  return choices;
}

// Returns nullopt if the built-in program is used.
Result<std::optional<trace::UserProgramRequest>> make_program_request(const OptionParser& parser,
                                                                      const ProgramOptions& options,
                                                                      Workstation& workstation) {
  if (options.objects.empty() && options.pinned.empty()) return std::nullopt;
  trace::UserProgramRequest request = options.request;
  request.pinned = !options.pinned.empty();
  request.paths = request.pinned ? options.pinned : options.objects;
  auto choices = parse_program_choices(options.names);
  if (!choices) return fail(parser.usage_error(std::move(choices).error().message));
  request.choices = std::move(*choices);
  for (const std::string& text : options.record_types) {
    const auto equals = text.find('=');
    const bool has_map = equals != std::string::npos;
    events::RecordTypeRequest& type = request.record_types.emplace_back();
    if (has_map) type.map = text.substr(0, equals);
    type.type = has_map ? text.substr(equals + 1) : text;
    if (type.type.empty() || (has_map && type.map.empty()))
      return fail(parser.usage_error("invalid value '" + text +
                                     "' for --record (expected TYPE or MAP=TYPE)"));
  }
  for (const std::string& text : options.shown_as) {
    auto rule = values::parse_shown_as_rule(text);
    if (!rule) return fail(parser.usage_error("--as: " + rule.error().message));
    request.shown_as.push_back(std::move(*rule));
  }
  auto settings = parse_object_settings(parser, options.set_up, workstation);
  if (!settings) return fail(std::move(settings).error());
  request.settings = std::move(*settings);
  request.kernel_types = options.set_up.kernel_types.value_or("");
  return request;
}

// Returns the command of "-- COMMAND ARGS…" or of -c; empty if there is none.
Result<std::vector<std::string>> parse_command(const OptionParser& parser,
                                               const AttachOptions& options,
                                               const Arguments& arguments) {
  const auto& typed = arguments.after_dashes;
  if (!options.command_line) return std::vector<std::string>(typed.begin(), typed.end());
  if (!typed.empty())
    return fail(parser.usage_error("-c cannot be combined with a command after --"));
  auto words = split_words(*options.command_line);
  if (!words) return fail(parser.usage_error("-c: " + words.error().message));
  if (words->empty()) return fail(parser.usage_error("-c: the command is empty"));
  return words;
}

// Returns nullopt for auto.
Result<std::optional<probe::Mechanism>> parse_mechanism(std::string_view name) {
  for (const probe::Mechanism mechanism : {probe::Mechanism::multi, probe::Mechanism::perf,
                                           probe::Mechanism::perf_ioctl, probe::Mechanism::tracefs})
    if (name == to_string(mechanism)) return mechanism;
  return std::nullopt;
}

Result<std::optional<bpf::RecordBuffer>> parse_buffer(std::string_view name) {
  for (const bpf::RecordBuffer buffer : {bpf::RecordBuffer::ring, bpf::RecordBuffer::perf})
    if (name == to_string(buffer)) return buffer;
  return std::nullopt;
}

Result<std::optional<std::chrono::nanoseconds>> parse_run_time(const std::string& text) {
  if (text == "forever") return std::nullopt;
  return parse_duration(text);
}

void bind_naming_options(OptionParser& parser, resolve::ResolveOptions& resolve,
                         CloneOptions& clones) {
  parser.bind("--all", resolve.all);
  bind_clone_options(parser, clones);
  parser.bind("--inlined", resolve.inlined);
  parser.bind("--unsafe", resolve.unsafe);
}

// The command line of attach or usdt attach.
struct AttachLine {
  AttachLine(ProbeKind kind, Workstation& workstation);
  AttachLine(const AttachLine&) = delete; // the parser refers to the options
  AttachLine& operator=(const AttachLine&) = delete;

  ProbeKind probes;
  OptionParser parser;
  CommonOptions common;
  AttachOptions options;
  trace::AttachRequest request;
  TaskRunOptions tasks; // of attach
};

AttachLine::AttachLine(ProbeKind kind, Workstation& workstation)
    : probes(kind), parser(kind == ProbeKind::functions ? "attach" : "usdt attach"),
      common{.workstation = &workstation, .private_output = true, .takes_exports = true} {
  bind_common_options(parser, common);
  parser.bind("--duration", options.duration, parse_run_time);
  parser.bind("--pid", options.processes);
  bind_process_options(parser, request);
  parser.bind("-c", options.command_line);
  parser.bind("--forward-exit", options.forward_exit);
  parser.bind("--live", options.live);
  parser.bind("--command-output", options.command_output);
  bind_capture_options(parser, options.capture, request, kind);
  bind_stack_options(parser, options.stack, request);
  parser.bind("--max-events", request.limits.max_events, CountReader{"-n", "a number of events"});
  parser.bind("--mechanism", request.mechanism, parse_mechanism);
  parser.bind("--buffer", request.buffer, parse_buffer);
  parser.bind("--no-fault", request.no_fault);
  parser.bind("--keep-going", request.probes.keep_going);
  bind_instruction_option(parser, options.instruction);
  parser.bind("--dry-run", request.dry_run);
  parser.bind("--save", options.save);
  parser.bind("--with-system-trace", options.system_trace);
  bind_program_options(parser, options.program);
  bind_debug_options(parser, options.debug_paths, common);
  parser.bind("--everywhere", request.probes.target_options.everywhere);
  if (kind == ProbeKind::static_probes) return;
  bind_naming_options(parser, request.probes.resolve_options, options.clones);
  bind_plan_options(parser, options.plan);
  bind_dex_options(parser, options.dex);
  bind_oatdump_option(parser, request.probes.target_options.oatdump);
  bind_task_run_options(parser, tasks);
}

// Sets the command that is started for the run, and where its stdout goes.
Result<void> set_command(const AttachLine& line, const Arguments& arguments,
                         trace::ProcessFilter& processes) {
  const AttachOptions& options = line.options;
  auto command = parse_command(line.parser, options, arguments);
  if (!command) return fail(std::move(command).error());
  processes.command = std::move(*command);
  if (processes.command.empty() && options.forward_exit)
    return fail(line.parser.usage_error("--forward-exit needs a command"));
  if (processes.command.empty() && options.command_output)
    return fail(line.parser.usage_error("--command-output needs a command"));
  using Destination = trace::CommandOutput::Destination;
  if (options.command_output == "inherit")
    processes.command_output = {.destination = Destination::inherit};
  else if (options.command_output)
    processes.command_output = {.destination = Destination::file, .path = *options.command_output};
  return {};
}

// Categories are names for a configuration in text.
Result<std::optional<trace::SystemTraceSpec>>
read_system_trace(const AttachLine& line, std::span<const output::ExportRequest> exports) {
  const auto& categories = line.options.system_trace;
  if (!categories) return std::nullopt;
  const auto wrong = [&](const std::string& what) {
    return fail(line.parser.usage_error("--with-system-trace" + what));
  };
  if (std::ranges::find(exports, output::ExportFormat::perfetto, &output::ExportRequest::format) ==
      exports.end())
    return wrong(" needs a Perfetto file: -o FILE.pftrace");
  if (line.options.stack.unwind_on == "host")
    return wrong(" needs --unwind-on device: what perfetto records is not in saved runs");
  trace::SystemTraceSpec spec;
  constexpr std::size_t most = 32; // so that the configuration fits into max_input
  for (const auto part : std::views::split(std::string_view(*categories), ',')) {
    const std::string_view name(part.begin(), part.end());
    if (name.empty() || name.size() > most ||
        !std::ranges::all_of(name, [](char c) { return is_ascii_letter_or_digit(c) || c == '_'; }))
      return wrong(": expected categories such as 'sched,gfx', not '" + *categories + "'");
    spec.categories.emplace_back(name);
  }
  if (spec.categories.size() > most) return wrong(": there are too many categories");
  return spec;
}

// Text of known functions reads like that of strace, unless something else was asked for. The kind
// of JSON's events does not depend on names.
bool pairs_known_calls(const AttachLine& line, const trace::AttachRequest& request) {
  const CaptureOptions& options = line.options.capture;
  const events::CaptureSpec& capture = request.capture;
  return !line.common.json && !options.entry && !options.on_return && !capture.pair_calls &&
         !request.graph && request.spans.empty() && capture.typed && capture.arguments.empty() &&
         capture.send_events && !capture.registers && !capture.measured &&
         capture.stack == events::StackWalk::none && !request.program &&
         !request.probes.static_probes && !options.return_at && request.probes.start_on.empty() &&
         request.probes.stop_on.empty() && !request.keep && !capture.stops_process;
}

// Makes the request of what was read into it and of the other options.
Result<trace::AttachRequest> make_attach_request(AttachLine& line, const Arguments& arguments,
                                                 const plans::AttachPlan* plan) {
  const OptionParser& parser = line.parser;
  const AttachOptions& options = line.options;
  auto program = make_program_request(parser, options.program, *line.common.workstation);
  if (!program) return fail(std::move(program).error());
  // The sections of the programs, or --program-name, name the FUNCTIONs.
  const bool by_sections = program->has_value() && arguments.positionals.size() < 2;
  trace::AttachRequest& request = line.request;
  if (plan != nullptr) {
    if (auto applied = apply_plan(parser, *plan, arguments.positionals, request.probes); !applied)
      return fail(std::move(applied).error());
  } else if (by_sections) {
    if (!arguments.positionals.empty()) request.probes.target = arguments.positionals.front();
  } else if (!options.capture.spans.empty() && arguments.positionals.size() == 1) {
    request.probes.target = arguments.positionals.front();
  } else {
    auto named = parse_request(parser, arguments.positionals,
                               line.probes == ProbeKind::static_probes ? WordKind::static_probes
                                                                       : WordKind::functions);
    if (!named) return fail(std::move(named).error());
    request.probes.target = std::move(named->target);
    request.probes.functions = std::move(named->functions);
  }
  request.program = std::move(*program);
  request.probes.static_probes = line.probes == ProbeKind::static_probes;
  const bool directed = options.capture.entry || options.capture.on_return;
  if (request.program) request.program->phase_by_section = !directed;
  if (by_sections && directed)
    return fail(parser.usage_error("--entry and --return need a FUNCTION: without it the "
                                   "section names of the object select entry or return"));
  if (auto applied = apply(parser, options.capture, *line.common.workstation, request); !applied)
    return fail(std::move(applied).error());
  if (auto applied = apply(parser, options.stack, line.common, request); !applied)
    return fail(std::move(applied).error());
  auto system_trace = read_system_trace(line, request.exports);
  if (!system_trace) return fail(std::move(system_trace).error());
  request.system_trace = std::move(*system_trace);
  request.makes_plan = options.plan.written.has_value();
  request.probes.target_options.debug_paths =
      paths_here(options.debug_paths, *line.common.workstation);
  auto dex = make_dex_search(options.dex, *line.common.workstation);
  if (!dex) return fail(std::move(dex).error());
  request.probes.target_options.dex = std::move(*dex);

  if (auto set = set_command(line, arguments, request.processes); !set)
    return fail(std::move(set).error());
  if (auto set = set_processes(parser, options.processes, request); !set)
    return fail(std::move(set).error());

  // Without --duration a command is traced until it exits.
  if (options.duration)
    request.limits.duration = *options.duration;
  else if (request.processes.command.empty())
    request.limits.duration = std::chrono::seconds(10);
  request.pairs_known_calls = pairs_known_calls(line, request);
  return std::move(request);
}

// The machine on which a run is.
struct RunLocation {
  bool is_device = false;
  bool gives_saved_run = false; // see Workstation::takes_saved_run()
};

// With --adb and --unwind-on host or --live the workstation gets the saved run, and makes of it
// what the options ask for (serve_report()).
void give_to_workstation(AttachOptions& options, CommonOptions& common) {
  const bool is_asked = options.stack.unwind_on == "host" || options.live;
  if (!is_asked || options.save) return;
  options.save = "-";
  options.stack.files = {};
  common.json = false;
  common.output.reset();
  common.exports.clear();
  common.hides_recorded_messages = true;
}

// Adds what --live needs to the request. Without a terminal counts are printed, and the returned
// text says so. The view of a run on a device is on the workstation.
std::string prepare_live(AttachLine& line, const RunLocation& location) {
  AttachOptions& options = line.options;
  CaptureOptions& capture = options.capture;
  trace::AggregateSpec& aggregates = line.request.aggregates;
  auto terminal = location.is_device ? Result<void>() : live::Terminal::check();
  if (location.is_device && !location.gives_saved_run)
    terminal = fail(ErrorKind::unsupported, "stdout is not a terminal");
  std::string notice;
  if (!terminal) {
    options.live = false;
    notice = terminal.error().message + ": --live prints counts each second instead";
  }
  const bool counts = aggregates.counts || aggregates.histograms;
  if (!options.live && !counts) aggregates.counts = true;
  if ((!options.live || counts) && !aggregates.interval)
    aggregates.interval = std::chrono::seconds(1);
  if (!options.live || counts) return notice;
  const bool has_calls = line.probes == ProbeKind::functions && options.program.objects.empty() &&
                         options.program.pinned.empty() && capture.spans.empty();
  if (!has_calls) return notice;
  if (!capture.entry && !capture.on_return && !capture.latency)
    capture.latency = capture.latency_is_implied = true;
  if (!options.stack.how && !capture.off_cpu && options.stack.unwind_on != "host")
    line.request.capture.caller = true;
  return notice;
}

// Completes the options before a request is made of them. Returns the notice of prepare_live().
std::string complete_options(AttachLine& line, const RunLocation& location) {
  AttachOptions& options = line.options;
  std::string notice = options.live ? prepare_live(line, location) : std::string();
  if (location.gives_saved_run) give_to_workstation(options, line.common);
  resolve::ResolveOptions& resolve = line.request.probes.resolve_options;
  resolve.clones = select_clones(options.clones);
  resolve.instructions = select_instructions(line.common, options.instruction);
  return notice;
}

Result<std::unique_ptr<live::View>> make_view(const AttachLine& line,
                                              const trace::AttachRequest& request) {
  return live::View::make({.title = request.title,
                           .duration = request.limits.duration,
                           .hits_are_counted = request.aggregates.counts,
                           .has_stacks = request.capture.has_whole_stacks(),
                           .has_command = !request.processes.command.empty(),
                           .messages = output_options(line.common)});
}

// Returns the exit code of the run; with --forward-exit that of the command. `kept`: the options to
// keep in the plan of --write-plan. `notice`: of prepare_live().
ExitCode attach(const AttachLine& line, trace::AttachRequest request, std::vector<std::string> kept,
                const std::string& notice) {
  const AttachOptions& options = line.options;
  const bool runs = !request.dry_run && !request.makes_plan;
  if (request.capture.raw_stacks && runs && !options.save) {
    Error error =
        line.parser.usage_error("--unwind-on host needs --save, whose file report reads, or --adb");
    if (options.plan.plan)
      error.hints = {"the plan has --unwind-on host; unwind on this machine: --unwind-on device",
                     "with --adb and a plan of stdin or of the device: repeat --unwind-on host"};
    return finish_with(error, line.common);
  }
  std::unique_ptr<live::View> view;
  UniqueFd discarded;
  if (options.live && runs && line.common.workstation->is_remote()) {
    // It would tear the picture on the workstation.
    discarded = UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    request.processes.command_output.view_fd = discarded.get();
  } else if (options.live && runs) {
    auto made = make_view(line, request);
    if (!made) return finish_with(made.error(), line.common);
    view = std::move(*made);
    request.processes.command_output.view_fd = view->command_fd();
    request.stacks.hides_events = false;
  }
  auto opened = SavedOutput::open(line.parser, line.common, {.instruction = options.instruction},
                                  options.save, make_header(request), std::move(view));
  if (!opened) return finish_with(opened.error(), line.common);
  output::Output& output = opened->output();
  if (!notice.empty()) output.warn(notice);
  const DebugFetching fetching(line.common.debuginfod, output);
  if (options.dex.compile)
    if (auto compiled = compile_methods(*request.probes.target_options.app,
                                        request.probes.target_options.dex, output);
        !compiled) {
      output.fail(compiled.error());
      return finish(output);
    }
  auto outcome = trace::run_attach(request, output);
  if (!outcome) {
    const std::vector<resolve::TargetedFunction>& functions = request.probes.functions;
    const auto targets = trace::list_targets(functions);
    output.fail(outcome.error(),
                targets.size() == 1 ? std::optional(targets.front()) : std::nullopt,
                functions.size() == 1 ? std::optional(functions.front().function) : std::nullopt);
    const ExitCode code = finish(output);
    return outcome.error().kind == ErrorKind::interrupted ? ExitCode::interrupted : code;
  }
  if (outcome->plan)
    if (auto written = write_plan_file(*options.plan.written, std::move(*outcome->plan),
                                       std::move(kept), output);
        !written)
      output.fail(written.error());
  const ExitCode code = finish(output);
  if (code != ExitCode::done) return code;
  const int forwarded = options.forward_exit ? outcome->command_status.value_or(0) : 0;
  return static_cast<ExitCode>(forwarded);
}

// Runs the command that was parsed. `title`: the command line.
ExitCode attach(AttachLine& line, const Arguments& parsed, std::string title,
                PlannedArguments planned) {
  if (line.options.live && line.common.json && !line.common.output)
    return finish_with(line.parser.usage_error("--live needs -o FILE with --json: the view has the "
                                               "terminal"),
                       line.common);
  const Workstation& workstation = *line.common.workstation;
  const std::string notice =
      complete_options(line, {.is_device = workstation.is_remote(),
                              .gives_saved_run = workstation.takes_saved_run()});
  auto request = make_attach_request(line, parsed, planned.plan.get());
  if (!request) return finish_with(request.error(), line.common);
  request->title = std::move(title);
  return attach(line, std::move(*request), std::move(planned.kept), notice);
}

} // namespace

Result<trace::AttachRequest> read_attach_request(std::span<const std::string_view> arguments,
                                                 bool gives_saved_run) {
  AttachLine line(ProbeKind::functions, this_machine());
  const auto parsed = line.parser.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (auto split = split_outputs(line.parser, line.common); !split)
    return fail(std::move(split).error());
  complete_options(line, {.is_device = true, .gives_saved_run = gives_saved_run});
  return make_attach_request(line, *parsed, nullptr);
}

ExitCode run_attach(std::span<const std::string_view> arguments, Workstation& workstation) {
  AttachLine line(ProbeKind::functions, workstation);
  auto planned = read_plan_options(arguments, workstation);
  std::vector<std::string_view> all;
  if (planned) all.assign(planned->options().begin(), planned->options().end());
  all.insert(all.end(), arguments.begin(), arguments.end());
  const auto parsed = parse_or_finish(line.parser, line.common, all);
  if (!parsed) return parsed.error();
  if (auto split = split_outputs(line.parser, line.common); !split)
    return finish_with(split.error(), line.common);
  if (!planned) return finish_with(planned.error(), line.common);
  std::string title = command_line("attach", arguments);
  AttachOptions& options = line.options;
  if (!line.tasks.file.config) return attach(line, *parsed, std::move(title), std::move(*planned));
  auto dex = make_dex_search(std::move(options.dex), workstation);
  if (!dex) return finish_with(dex.error(), line.common);
  line.tasks.save = std::move(options.save);
  return attach_task_file(
      line.parser, *parsed, line.tasks, std::move(title),
      {.dex = std::move(*dex), .oatdump = std::move(line.request.probes.target_options.oatdump)},
      line.common);
}

ExitCode run_usdt_attach(std::span<const std::string_view> arguments, Workstation& workstation) {
  AttachLine line(ProbeKind::static_probes, workstation);
  const auto parsed = parse_or_finish(line.parser, line.common, arguments);
  if (!parsed) return parsed.error();
  if (auto split = split_outputs(line.parser, line.common); !split)
    return finish_with(split.error(), line.common);
  return attach(line, *parsed, command_line("usdt attach", arguments), {});
}

} // namespace uprobectl::cli
