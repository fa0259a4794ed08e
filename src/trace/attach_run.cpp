// SPDX-License-Identifier: Apache-2.0
#include "bpf/pid_namespace.hpp"
#include "output/format.hpp"
#include "process/proc.hpp"
#include "trace/anonymous_copies.hpp"
#include "trace/binary_cache.hpp"
#include "trace/builtin_points.hpp"
#include "trace/diagnosis.hpp"
#include "trace/graph_run.hpp"
#include "trace/known_functions.hpp"
#include "trace/placing.hpp"
#include "trace/planned_probes.hpp"
#include "trace/probes.hpp"
#include "trace/process_code.hpp"
#include "trace/process_names.hpp"
#include "trace/process_targets.hpp"
#include "trace/report.hpp"
#include "trace/returns.hpp"
#include "trace/run_loop.hpp"
#include "trace/span_report.hpp"
#include "trace/stopped_processes.hpp"
#include "trace/suspended_child.hpp"
#include "trace/system_trace.hpp"
#include "trace/upkeep.hpp"
#include "util/clock.hpp"
#include "util/mapped_file.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <set>

namespace uprobectl::trace {

namespace {

using Clock = std::chrono::steady_clock;

output::AttachedRecord make_attached_record(probe::Mechanism mechanism, std::size_t probes,
                                            std::string program,
                                            const output::ClockReading& clocks) {
  return {.mechanism = probes > 0 ? std::optional(to_string(mechanism)) : std::nullopt,
          .probes = probes,
          .program = std::move(program),
          .clocks = clocks};
}

Result<std::unique_ptr<ProgramSource>> make_program(const AttachRequest& request,
                                                    BinaryCache& binaries, output::Output& output) {
  if (request.program) return make_user_source(request, output);
  return make_builtin_source(request, binaries, output);
}

probe::MechanismNeeds mechanism_needs(const AttachRequest& request, std::span<const pid_t> pids,
                                      const ProgramSource& program,
                                      const ResolvedProbes& resolved) {
  // The sites that can share a tracefs event. Returns of the built-in program cannot: it could not
  // tell which of them was hit.
  std::size_t sharing = 0;
  bool semaphores = false;
  for (const Probe& probe : resolved.probes) {
    semaphores |= probe.point.semaphore.has_value();
    for (const PlannedSite& site : probe.sites)
      if (request.program || !site.on_return) ++sharing;
  }
  const std::size_t processes = std::max<std::size_t>(pids.size(), 1);
  return {.filters_by_pid = !pids.empty(),
          .main_thread_ended = std::ranges::any_of(
              pids, [](pid_t pid) { return process::find_live_thread(pid) != pid; }),
          .probes = sharing * processes,
          .loaded_by_us = !request.program || !request.program->pinned,
          .semaphores = semaphores,
          .kind = program.info().kind};
}

// One run of attach. If it has a command, the caller has started it suspended, and its pid is the
// only one in the filter. run_and_report() releases and ends the command.
class AttachRun {
public:
  AttachRun(AttachRequest& request, const ProcessFilter& filter, ProgramSource& program,
            BinaryCache& binaries, output::Exports& exports, SuspendedChild* command,
            const CommandStdout& command_stdout, output::Output& output)
      : request_(request), filter_(filter), program_(program), binaries_(binaries),
        exports_(exports), command_(command), command_stdout_(command_stdout), output_(output) {}

  Result<AttachOutcome> run() {
    for (const events::ArgumentList& list : request_.capture.arguments)
      for (const std::string& warning : list.warnings) output_.warn(warning);
    auto signals = SignalWatch::start();
    if (!signals) return fail(std::move(signals).error());
    auto running = ProcessWatch::start(filter_.pids);
    if (!running) return fail(std::move(running).error());
    if (auto prepared = prepare_probes(); !prepared) return fail(std::move(prepared).error());
    if (request_.makes_plan) {
      auto plan = make_plan(request_, resolved_, binaries_);
      if (!plan) return fail(std::move(plan).error());
      AttachOutcome outcome;
      outcome.plan = std::move(*plan);
      return outcome;
    }
    if (request_.dry_run) {
      if (auto checked = check_values(); !checked) return fail(std::move(checked).error());
      show_probes(resolved_.probes, program_.info(), output_);
      return AttachOutcome();
    }
    if (auto mounted = process::check_proc_mounted(); !mounted)
      return fail(std::move(mounted).error());
    auto processes = FilteredProcesses::start(filter_, request_.probes.target_options.app,
                                              std::move(*running), output_);
    if (!processes) return fail(std::move(processes).error());
    // Start the system trace before the probes, so that it covers the whole run.
    auto system_trace = start_system_trace(request_, [&] { return signals->arrived(); });
    if (!system_trace) return fail(std::move(system_trace).error());
    system_trace_ = std::move(*system_trace);
    auto attached = load_and_attach(*processes, *signals);
    if (!attached) return fail(std::move(attached).error());
    return run_and_report(*processes, *attached, *signals);
  }

private:
  // Resolves the request, and decides for each probe whether and where its sites can be probed.
  Result<void> prepare_probes() {
    const ExitOnSignal exit_on_signal; // resolving in a large file takes seconds
    const output::Progress progress(output_, "finding the functions");
    resolve::TargetOptions options = request_.probes.target_options;
    if (command_ == nullptr) { // a suspended command has not mapped its files yet
      auto pids = find_target_pids(filter_, list_targets(request_.probes.functions), output_);
      if (!pids) return fail(std::move(pids).error());
      options.pids = std::move(*pids);
    }
    if (!request_.processes.command.empty()) options.command = request_.processes.command.front();
    named_pids_ = command_ == nullptr ? options.pids : filter_.pids;
    // An attach plan does not depend on the nops that this kernel replaces.
    if (!request_.makes_plan)
      request_.probes.resolve_options.replaced_nops = bpf::probe_optimized_nops();
    std::vector<ProbeRequest> probe_requests = program_.info().probe_requests;
    if (request_.program) {
      auto targets =
          find_process_targets(std::move(probe_requests), options.pids, request_.processes.command);
      if (!targets) return fail(std::move(targets).error());
      probe_requests = std::move(*targets);
    }
    if (auto checked = check_unused_target(request_.probes, options); !checked) return checked;
    auto found = resolve_requests(probe_requests, request_.probes, options, binaries_, output_);
    if (!found) return fail(std::move(found).error());
    resolved_ = std::move(*found);
    if (request_.graph)
      if (auto added = capture_exception_type(); !added) return added;
    if (!request_.program && !request_.dry_run)
      if (auto added = add_embedded_prototypes(request_.capture, resolved_.probes); !added)
        return added;
    if (request_.graph)
      if (auto checked = check_graph_size(); !checked) return checked;
    if (request_.pairs_known_calls) pair_known_calls();
    if (!plan_returns(request_.probes, request_.capture, program_.info().checks_exits,
                      {.follows = follows_tail_calls(), .pids = options.pids}, binaries_, resolved_,
                      output_))
      request_.capture.pair_calls = false;
    const bool has_running = command_ == nullptr && has_only_fixed_pids();
    skip_unprobeable(resolved_, !has_running && !request_.makes_plan, output_);
    if (!request_.makes_plan && !request_.program)
      move_after_prologues(request_.capture, binaries_, resolved_, output_);
    skip_code_changed_in_processes(options.pids);
    // Several programs may ask for one function.
    std::set<std::pair<std::string_view, std::string_view>> functions;
    for (const ProbeRequest& probe_request : probe_requests)
      for (const std::string& function : probe_request.functions)
        functions.emplace(probe_request.target, function);
    auto checked = check_failures(functions.size(), request_.probes, resolved_, output_);
    if (checked) checked = check_span_points(request_.spans, resolved_.probes);
    return checked && request_.graph ? check_reported_function() : checked;
  }

  // Leaves out probes whose code in a process differs from the file. Looks at the processes that
  // get breakpoints: `named` if the links filter by pids, otherwise all that map a probed file.
  // `named`: those of the filter, and those that its names match; a dry run needs them.
  void skip_code_changed_in_processes(std::span<const pid_t> named) {
    if (request_.makes_plan) return;
    const bool by_pid = has_only_fixed_pids();
    if (request_.dry_run && named.empty()) return;
    if (by_pid && command_ != nullptr) return; // it maps nothing yet
    skip_changed_code(resolved_, by_pid ? named : std::span<const pid_t>(), output_);
  }

  // Whether the kernel runs the probes only in the processes that were asked for.
  bool has_only_fixed_pids() const {
    return !filter_.pids.empty() && filter_.names.empty() && !filter_.follow && !filter_.all;
  }

  Result<void> check_graph_size() const {
    const std::size_t functions = resolved_.probes.size();
    const std::size_t limit = request_.graph->max_functions;
    if (functions <= limit) return {};
    return fail(Error{ErrorKind::unsupported,
                      fmt::format("a graph of {} functions was requested, the limit is {}: each of "
                                  "their calls is slowed down",
                                  functions, limit)}
                    .hint("name fewer functions, or leave some out with --exclude PATTERN")
                    .hint(fmt::format("or raise the limit: --graph-limit {}", functions)));
  }

  // Captures the name of the thrown type, which CallTree shows. Itanium C++ ABI, 2.4.3 and 2.9.4:
  // the second argument is a type_info, whose name follows the pointer to its virtual table.
  Result<void> capture_exception_type() {
    const std::string function = "__cxa_throw";
    const bool is_probed = std::ranges::any_of(
        resolved_.probes, [&](const Probe& probe) { return probe.point.symbol == function; });
    const bool is_declared =
        std::ranges::any_of(request_.capture.arguments, [&](const events::ArgumentList& list) {
          return !list.function || list.function == function;
        });
    if (!is_probed || is_declared) return {};
    auto list = events::parse_arguments(function + "=type:str@arg1+8");
    if (!list) return fail(std::move(list).error());
    request_.capture.arguments.push_back(std::move(*list));
    return {};
  }

  // A function that is not probed cannot be in the report.
  Result<void> check_reported_function() const {
    const std::optional<std::string>& name = request_.graph->report.function;
    const bool is_probed = !name || std::ranges::any_of(resolved_.probes, [&](const Probe& probe) {
      return output::has_name(probe.point, *name);
    });
    if (is_probed) return {};
    return fail(
        Error{ErrorKind::not_found,
              fmt::format("--report-function: '{}' is not among the probed functions", *name)}
            .hint("add it to the FUNCTIONs"));
  }

  // Whether the request names values of the functions, beside those that a hit has anyway.
  bool names_values() const {
    const events::CaptureSpec& capture = request_.capture;
    const bool has_root_condition =
        request_.graph && !request_.graph->root_filter.expressions.empty();
    const bool has_trigger = request_.keep && !request_.keep->conditions.empty();
    return capture.names_values() || !capture.arguments.empty() || !request_.spans.empty() ||
           has_root_condition || has_trigger;
  }

  // Looks the named values up as the run does. Registers and types of other machines cannot be
  // looked up here.
  Result<void> check_values() {
    const bool is_of_other_machine = std::ranges::any_of(resolved_.probes, [](const Probe& probe) {
      return probe.point.binary->machine.arch != host_arch;
    });
    if (request_.program || is_of_other_machine || !names_values()) return {};
    const ExitOnSignal exit_on_signal; // reading types of a large file takes seconds
    if (auto added = add_embedded_prototypes(request_.capture, resolved_.probes); !added)
      return added;
    if (auto checked = program_.check_values(resolved_); !checked) return checked;
    program_.report_cautions();
    return prepare_root_condition();
  }

  // Compiles --root-if for the functions whose calls may be roots.
  Result<void> prepare_root_condition() {
    if (!request_.graph || request_.graph->root_filter.expressions.empty()) return {};
    auto made = events::EventFilter::make(request_.graph->root_filter, {.is_live = true});
    if (!made) return fail(std::move(made).error());
    root_condition_ = std::move(*made);
    for (const Probe& probe : resolved_.probes) {
      if (request_.graph->roots.empty() ? !probe.is_recorded : !probe.is_graph_root) continue;
      auto described = program_.describe(probe);
      if (!described) continue;
      described->pairs_calls = true;
      root_condition_->add_point(static_cast<std::uint32_t>(probe.number), *described,
                                 display_name(probe.point));
    }
    const auto checked = root_condition_->check(roots_without_values);
    if (!checked) return fail(checked.error());
    if (!checked->empty()) output_.warn(*checked);
    return {};
  }

  // Says what the graph costs before it begins.
  void report_graph_cost() const {
    const auto functions =
        static_cast<std::uint64_t>(std::ranges::count_if(resolved_.probes, &Probe::is_recorded));
    std::size_t sites = 0;
    for (const Probe& probe : resolved_.probes) sites += probe.sites.size();
    std::string text = fmt::format("graph: {} at {}", counted(functions, "function", "functions"),
                                   counted(sites, "probe point", "probe points"));
    if (const auto cost = program_.measure_cost(CostOf::call)) {
      text += ", each call takes about ";
      output::append_short_duration(
          text, static_cast<std::uint64_t>(std::max<std::int64_t>(cost->each.count(), 0)));
      text += " longer";
    }
    output_.status(text);
  }

  void report_excluded() const {
    std::uint64_t excluded = 0;
    for (const Probe& probe : resolved_.probes) excluded += probe.excluded_hits;
    output_.status(
        fmt::format("graph: {} left out by filters", counted(excluded, "call", "calls")));
  }

  // Also probes returns and pairs calls, if enough of the functions are known and all have exits
  // that can be probed. Finding the exits of many functions would take long, and so would detaching
  // them one by one.
  void pair_known_calls() {
    Probes& probes = resolved_.probes;
    if (probes.size() > events::max_whole_functions) return;
    std::vector<events::CapturePoint> points;
    for (const Probe& probe : probes)
      points.push_back(
          {.point = &probe.point, .code = binaries_.of(probe.point).code_abi(probe.point, false)});
    if (!KnownFunctions(request_.capture, points.size(), binaries_).can_pair(points)) return;
    const auto& features = kernel_features();
    if (!features) return; // load_and_attach() reports it
    const auto mechanism =
        choose_mechanism(request_.mechanism, *features,
                         mechanism_needs(request_, filter_.pids, program_, resolved_));
    if (mechanism != probe::Mechanism::multi || !can_plan_exits(binaries_, resolved_)) return;
    request_.capture.pair_calls = true;
    for (Probe& probe : probes) probe.sites.push_back({.on_return = true});
  }

  // Whether calls go on in functions that the probed functions jump to. Every call of such a
  // function then costs a hit, so this is off by default if the kernel runs the probes in processes
  // that were not asked for. An attach plan does not have the exits of such functions.
  bool follows_tail_calls() const {
    if (request_.makes_plan || request_.probes.return_at == ReturnAt::own_exits) return false;
    return has_only_fixed_pids() || request_.probes.return_at == ReturnAt::callee;
  }

  // Asks the kernel only once, because this loads BPF programs.
  const Result<bpf::KernelFeatures>& kernel_features() {
    if (!features_) features_ = bpf::probe_kernel_features();
    return *features_;
  }

  // The built-in program can filter the pids itself. It does so if no other process maps the probed
  // files, because no other process is slowed down then.
  Result<void> choose_filter(FilteredProcesses& processes) const {
    constexpr std::size_t max_search = 150'000; // mappings: 0.3 s
    // Processes outside of this pid namespace are not in /proc.
    if (request_.program || processes.link_pids().empty() || bpf::read_pid_namespace() ||
        is_mapped_by_others(probed_files(resolved_.probes), processes.link_pids(), max_search))
      return {};
    output_.detail("no other process maps the probed files: processes are filtered in the BPF "
                   "program");
    return processes.filter_in_program();
  }

  // Loads, attaches and starts the programs.
  Result<AttachedProbes> load_and_attach(FilteredProcesses& processes, SignalWatch& signals) {
    const auto& features = kernel_features();
    if (!features) return fail(features.error());
    if (auto prepared = program_.prepare(*features); !prepared)
      return fail(std::move(prepared).error());
    if (auto chosen = choose_filter(processes); !chosen) return fail(std::move(chosen).error());
    const std::span<const pid_t> pids = processes.link_pids();
    const auto mechanism = choose_mechanism(request_.mechanism, *features,
                                            mechanism_needs(request_, pids, program_, resolved_));
    if (!mechanism) return fail(mechanism.error());
    mechanism_ = *mechanism;
    std::set<const MappedFile*> files;
    for (const Probe& probe : resolved_.probes) files.insert(probe.point.binary->file.get());
    for (const MappedFile* const file : files)
      if (auto added = file_watch_.add(*file); !added) return fail(std::move(added).error());
    if (*mechanism == probe::Mechanism::session)
      if (auto checked = check_session(); !checked) return fail(std::move(checked).error());
    const events::CaptureSpec& capture = request_.capture;
    const bool sees_entries = !request_.program && phases_of(capture).entry;
    if (const auto notice = uretprobe_notice(resolved_, *mechanism, sees_entries))
      output_.notice(*notice);
    std::vector<pid_t> tasks = processes.choose_link_tasks();
    // Without a task the links would be system-wide.
    if (tasks.empty()) tasks.assign(pids.begin(), pids.end());
    const LoadRequest load{
        .mechanism = *mechanism, .filter = processes.filter(), .pids = named_pids_};
    auto attached = attach_probes(tasks, request_.probes.keep_going, load, program_, resolved_,
                                  signals, output_);
    if (!attached) return fail(std::move(attached).error());
    Probes& probes = resolved_.probes;
    const bool names_processes = request_.capture.count_by_process || output_.has_recorders();
    history_.emplace(filter_, names_processes, probes);
    // Survey now: processes may end before the run does.
    if (const auto known = processes.known_pids(); !known.empty()) {
      add_surveys(probes, survey_probes(probes, known));
      warn_about_anonymous_copies(probes, known, binaries_, output_);
    }
    if (processes.is_system_wide())
      warn_about_shared_libraries(probes, survey_probes(probes, {}), output_);
    if (auto checked = file_watch_.check(); !checked) return fail(std::move(checked).error());
    tolerate_all_shrinking();
    program_.report_cautions();
    if (auto prepared = prepare_root_condition(); !prepared)
      return fail(std::move(prepared).error());
    output_.report_repeated();
    if (request_.graph) report_graph_cost();
    if (request_.capture.stops_process)
      output_.notice("--on-hit stop changes what is traced: a hit stops its process until someone "
                     "continues it");
    if (command_ != nullptr)
      warn_about_copying_command(request_.processes.command, probes, output_);
    if (signals.arrived())
      return fail(ErrorKind::interrupted, "interrupted before the probes were attached");
    const output::ClockReading clocks = output::ClockReading::now();
    exports_.begin({.header = make_header(request_),
                    .start = clocks,
                    .find_process_name = [this](std::uint32_t pid) {
                      return history_->find_name(static_cast<pid_t>(pid));
                    }});
    if (auto started = program_.start(hit_processes(processes)); !started)
      return fail(std::move(started).error());
    start_ = Clock::now();
    output_.write(make_attached_record(*mechanism, attached->probes, program_.info().name, clocks));
    output_.detail(fmt::format("{} probes through {}, {} parts", attached->probes,
                               to_string(*mechanism),
                               attached->attachment ? attached->attachment->detach_steps() : 0));
    return attached;
  }

  // Rejects Java code, because session programs use uretprobes.
  Result<void> check_session() {
    for (const Probe& probe : resolved_.probes) {
      const resolve::ProbePoint& point = probe.point;
      const auto reader = binaries_.of(point).functions();
      if (point.java || (reader && (*reader)->language_of(point) == resolve::CodeLanguage::java))
        return fail(ErrorKind::unsupported,
                    display_name(point) + ": session programs cannot be attached to Java code: "
                                          "they replace return addresses, and ART aborts the app");
    }
    return {};
  }

  // Other processes than the given pids can hit the probes if names may match later ones or all are
  // probed. Programs of the user that are not attached to probes run for every process.
  HitProcesses hit_processes(const FilteredProcesses& processes) const {
    return {.include_others = filter_.pids.empty() || !filter_.names.empty() || filter_.all ||
                              program_.info().other_programs > 0,
            .running = [&processes] { return processes.known_pids(); },
            .find_name = [this](pid_t pid) { return history_->find_name(pid); }};
  }

  // Returns no details for a user's programs, which do not count these hits.
  LossDetails loss_details() {
    LossDetails details;
    if (request_.program) return details;
    if (request_.capture.limits.max_rate)
      details.count_rate_limited = [this] {
        program_.count_hits(resolved_.probes);
        std::uint64_t hits = 0;
        for (const Probe& probe : resolved_.probes) hits += probe.left_out.rate_limited;
        return hits;
      };
    if (request_.capture.pair_calls)
      details.list_unreturned = [this] {
        program_.count_hits(resolved_.probes);
        return list_unreturned(resolved_.probes);
      };
    return details;
  }

  // Reports processes that ended, but not the end of a command, which is expected.
  void report_ended(FilteredProcesses& processes, Clock::time_point now) const {
    for (const std::string& process : processes.take_ended())
      if (command_ == nullptr)
        output_.status(fmt::format(
            "{} has ended after {}", process,
            format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(now - start_))));
  }

  Result<AttachOutcome> run_and_report(FilteredProcesses& processes, AttachedProbes& attached,
                                       SignalWatch& signals) {
    Probes& probes = resolved_.probes;
    show_instructions(probes, output_);
    output_.announce(start_line(request_, probe_totals(probes), program_.info().other_programs) +
                     (command_stdout_.is_stderr ? "; its stdout goes to stderr" : ""));
    if (request_.stacks.hides_events && request_.capture.send_events && !request_.graph)
      output_.announce("events are not shown, only their stacks are written; -j or -o FILE shows "
                       "them, too");
    if (command_ != nullptr)
      if (auto released = command_->release(); !released) return fail(std::move(released).error());

    AttachOutcome outcome;
    output_.buffer().disable_auto_flush();
    RunLoop loop(program_, processes, signals, output_, request_.limits,
                 !request_.stacks.hides_events && !request_.graph);
    if (request_.keep) loop.keep(*request_.keep);
    StoppedProcesses stopped_processes(output_);
    if (request_.capture.stops_process) loop.add_recorder(stopped_processes);
    ProcessNameRecorder names(*history_, output_);
    loop.add_recorder(names);
    std::optional<GraphRun> graph;
    if (request_.graph) {
      std::set<std::uint32_t> roots;
      for (const Probe& probe : probes)
        if (probe.is_graph_root) roots.insert(static_cast<std::uint32_t>(probe.number));
      for (const std::uint32_t root : roots)
        output_.record(output::CallChange{.kind = output::CallChange::Kind::root,
                                          .call = {.parent = {}, .probe = root}});
      loop.add_recorder(graph.emplace(
          *request_.graph, std::move(roots), root_condition_ ? &*root_condition_ : nullptr,
          request_.probes.return_at == ReturnAt::trampoline, output_.is_json(), output_));
      if (request_.capture.entry_decides) graph->set_entry_decides();
      graph->set_jumps_to([&probes](std::uint32_t probe, std::uint32_t callee) {
        const resolve::ProbePoint& point = probes[callee].point;
        return probes[probe].point.binary == point.binary &&
               std::ranges::binary_search(probes[probe].callees, point.address);
      });
      if (!exports_.empty()) graph->add(exports_);
    }
    loop.set_loss_details(loss_details());
    loop.set_report_interval(request_.aggregates.interval);
    UnhitReporter unhit_reporter(probes, program_, processes, output_, start_);
    CodeWatch code_watch(probes, processes, output_, start_);
    ProbeUpkeep upkeep({.probes = probes,
                        .mechanism = mechanism_,
                        .has_only_fixed_pids = has_only_fixed_pids(),
                        .start = start_},
                       processes, attached, file_watch_, code_watch, *history_, signals, output_);
    outcome.ending = loop.run(start_, [&](Clock::time_point now) {
      history_->update();
      upkeep.renew_filters();
      upkeep.follow_files(now);
      report_ended(processes, now);
      unhit_reporter.report(now);
      if (attached.attachment) code_watch.look(now);
      if (command_ != nullptr && !request_.capture.stops_process && signals.take_continued())
        command_->resume();
    });
    if (outcome.ending == AttachOutcome::Ending::processes_gone && request_.limits.duration &&
        command_ == nullptr)
      output_.status("no probed process is left: the run ends early");
    if (outcome.ending == AttachOutcome::Ending::stopped)
      output_.status("a function of --stop-on was hit: the run ends");
    const auto end = Clock::now();

    // Stop counting before detaching: probes are detached one after the other, and those that stay
    // longer must not have higher counts.
    const bool is_disarmed = program_.stop().has_value();
    const std::uint64_t recording_end_ns = clock_ns(CLOCK_MONOTONIC);
    output_.note_recording_end();
    if (graph) graph->note_running(recording_end_ns);
    history_->update();
    if (attached.attachment)
      code_watch.look_at_end([&](pid_t pid) { return history_->is_replaced(pid); });
    detach_probes(attached, output_);
    file_watch_ = FileWatch();
    const output::Progress progress(output_, "finishing the run");
    loop.finish();
    // Open calls end with the recording: their durations do not include the detaching.
    if (graph)
      graph->finish(outcome.ending == AttachOutcome::Ending::max_events
                        ? std::nullopt
                        : std::optional(recording_end_ns));
    std::optional<SuspendedChild::End> command_end;
    const pid_t command_pid = command_ != nullptr ? command_->pid() : 0;
    stopped_processes.finish();
    outcome.leaves_command =
        command_ != nullptr && request_.capture.stops_process && is_stopped(command_pid);
    if (command_ != nullptr && !outcome.leaves_command) command_end = command_->end();
    if (command_end) outcome.command_status = command_end->shell_status();
    history_->update();
    upkeep.renew_filters(); // reports what is not attached again
    if (command_end) warn_about_signal(*command_end, command_pid, code_watch);
    if (command_ == nullptr)
      for (const pid_t pid : code_watch.find_trapped())
        report_copied_breakpoint(fmt::format("process {}", pid), pid, code_watch);
    names.finish();
    program_.report_aggregates(end);
    if (graph) graph->write_report();
    const ProgramResults results = program_.finish();
    program_.count_hits(probes);
    add_up_hits(probes);
    if (request_.capture.entry_decides) report_excluded();
    finish_report(processes,
                  {.probes = probes,
                   .pids = {},
                   .only_counted = !request_.program && !request_.capture.send_events,
                   .results = results,
                   .totals = loop.totals(),
                   .window = loop.window_totals(),
                   .duration = end - start_,
                   .detached_cleanly = is_disarmed,
                   .command_end = command_end,
                   .binaries = &binaries_,
                   .incomplete = code_watch.incomplete(),
                   .limits = request_.capture.limits,
                   .copies_stacks = request_.capture.stack != events::StackWalk::frame_pointers &&
                                    request_.capture.stack != events::StackWalk::caller,
                   .unwinds_stacks = !request_.capture.raw_stacks},
                  outcome.ending != AttachOutcome::Ending::output_closed);
    if (results.stacks != nullptr)
      report_stacks(*results.stacks, request_.capture, request_.stacks, output_);
    report_without_stack(results.without_stack, !request_.spans.empty(), output_);
    report_invisible(probes, output_);
    if (system_trace_) {
      const auto before = signals.count();
      system_trace_->finish(exports_, [&] { return signals.count() > before; }, output_);
    }
    const auto clocks = output::ClockReading::now();
    output_.record(output::ClockRecord{.clocks = clocks, .at_end = true});
    const std::vector<Error> errors = exports_.finish(
        {.summary = flame_graph_subtitle(end - start_, results.stacks), .time = clocks});
    for (const Error& error : errors) output_.fail(error);
    if (request_.limits.expected_hits)
      check_expected_hits(*request_.limits.expected_hits, probes, output_);
    return outcome;
  }

  // Adds what is known of processes and of the cost of hits, and writes the final report.
  void finish_report(const FilteredProcesses& processes, RunEnd end, bool measures_cost) {
    const std::vector<pid_t> known = processes.known_pids();
    Probes& probes = resolved_.probes;
    add_surveys(probes, history_->surveys(known, false));
    std::vector<process::MappingSurvey> descendants = history_->surveys(known, true);
    // With --follow all descendants are probed.
    if (filter_.follow)
      add_surveys(probes, descendants);
    else if (processes.excludes_children())
      for (Probe& probe : probes)
        probe.facts.children = std::move(descendants[probe.number].executable);
    end.pids = known;
    if (known.empty() && !processes.is_system_wide())
      end.no_process_reason = processes.explain_no_process();
    end.follows_children = !processes.excludes_children();
    if (processes.were_too_many())
      output_.warn(fmt::format("there were more than {} target processes at a time: further ones "
                               "were not traced",
                               bpf::ProcessSet::max_members));
    if (measures_cost) end.cost = program_.measure_cost(CostOf::hit);
    report_end(end, output_);
  }

  // Reports that a process has run a copied breakpoint; false if it was not seen to copy code.
  bool report_copied_breakpoint(const std::string& process, pid_t pid,
                                const CodeWatch& code_watch) const {
    const bool has_copied = code_watch.has_copied(pid);
    if (!has_copied && !history_->has_new_code(pid)) return false;
    output_.fail(Error{
        ErrorKind::unsupported,
        fmt::format("{} ended by signal {} (SIGTRAP): it {} code while it was probed, and has "
                    "run a breakpoint of a probe in the copy",
                    process, SIGTRAP,
                    has_copied ? "has changed or copied" : "seems to have copied")}
                     .hint("attach with -p when it has done so, or probe other functions"));
    return true;
  }

  void warn_about_signal(const SuspendedChild::End& end, pid_t pid,
                         const CodeWatch& code_watch) const {
    if (end.signal == 0 || (end.got_sigterm && end.signal == SIGTERM)) return;
    if (end.signal == SIGTRAP && report_copied_breakpoint("the command", pid, code_watch)) return;
    const char* const name = ::sigabbrev_np(end.signal); // null for real-time signals
    output_.warn(fmt::format("the command ended by signal {}{}", end.signal,
                             name != nullptr ? fmt::format(" (SIG{})", name) : ""));
  }

  AttachRequest& request_;
  const ProcessFilter& filter_;
  ProgramSource& program_;
  BinaryCache& binaries_;
  output::Exports& exports_;
  SuspendedChild* command_;
  const CommandStdout& command_stdout_;
  output::Output& output_;
  ResolvedProbes resolved_;
  std::vector<pid_t> named_pids_; // pids of the filter, and of processes that its names match
  std::optional<events::EventFilter> root_condition_;
  std::unique_ptr<SystemTrace> system_trace_;
  std::optional<Result<bpf::KernelFeatures>> features_;
  probe::Mechanism mechanism_ = probe::Mechanism::multi; // set before the probes are attached
  std::optional<ProcessHistory> history_;                // set when the probes are attached
  FileWatch file_watch_;                                 // of the probed files
  Clock::time_point start_;
};

} // namespace

Result<AttachOutcome> run_attach(const AttachRequest& requested, output::Output& output) {
  if (auto checked = check_request(requested); !checked) return fail(std::move(checked).error());
  AttachRequest request = requested; // AttachRun completes it: prototypes, pairing, replaced nops
  if (request.makes_plan) {
    request.dry_run = true;
    request.pairs_known_calls = false; // the run that uses the plan decides
  }
  BinaryCache binaries(request.probes.target_options.debug_paths);
  auto exports = output::Exports::open(
      request.dry_run ? std::span<const output::ExportRequest>()
                      : std::span<const output::ExportRequest>(request.exports),
      output);
  if (!exports) return fail(std::move(exports).error());
  auto program = make_program(request, binaries, output);
  if (!program) return fail(std::move(program).error());
  if (request.processes.command.empty() || request.dry_run)
    return AttachRun(request, request.processes, **program, binaries, **exports, nullptr,
                     CommandStdout(), output)
        .run();
  const auto command_stdout = CommandStdout::open(request.processes.command_output, output);
  if (!command_stdout) return fail(command_stdout.error());
  auto command = SuspendedChild::start(request.processes.command, *command_stdout,
                                       request.capture.stops_process);
  if (!command) return fail(std::move(command).error());
  ProcessFilter filter = request.processes;
  filter.pids = {command->pid()};
  auto outcome =
      AttachRun(request, filter, **program, binaries, **exports, &*command, *command_stdout, output)
          .run();
  if (outcome && !outcome->command_status && !outcome->leaves_command)
    output.warn(fmt::format("process {} did not end after SIGTERM and still runs", command->pid()));
  return outcome;
}

} // namespace uprobectl::trace
