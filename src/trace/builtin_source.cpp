// SPDX-License-Identifier: Apache-2.0
// The event source for the built-in program: loads it for the request, reads its records, and hands
// their events to the parts that the request asks for.
#include "bpf/kernel_types.hpp"
#include "bpf/pid_namespace.hpp"
#include "events/plan_layout.hpp"
#include "process/mapped_memory.hpp"
#include "symbols/classify.hpp"
#include "trace/aggregates.hpp"
#include "trace/binary_cache.hpp"
#include "trace/builtin_loader.hpp"
#include "trace/builtin_points.hpp"
#include "trace/call_table.hpp"
#include "trace/caller_code.hpp"
#include "trace/counted_events.hpp"
#include "trace/diagnosis.hpp"
#include "trace/hit_cost.hpp"
#include "trace/known_functions.hpp"
#include "trace/program_sites.hpp"
#include "trace/program_source.hpp"
#include "trace/span_report.hpp"
#include "trace/triggers.hpp"
#include "trace/typed_probes.hpp"
#include "util/clock.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace uprobectl::trace {

namespace {

// The buffer size with stacks: a record with a stack is a hundred times as large as one without.
constexpr std::uint32_t stack_buffer_bytes = 32U << 20;

// Sets the pids that processes have in their own pid namespaces.
class NamespaceIds final : public RunPart {
public:
  bool take(Bytes /*record*/, events::Event& event) override {
    event.ns_pid = pids_.find(event.pid, event.time_ns);
    return true;
  }

private:
  NamespacePids pids_;
};

// Sets the stack of each event, or its caller.
class EventStacks final : public RunPart {
public:
  EventStacks(const events::CapturePlan& plan, const events::CaptureSpec& capture,
              HitStacks& stacks)
      : capture_plan_(plan), capture_(capture), stacks_(stacks) {}

  bool take(Bytes record, events::Event& event) override {
    const auto captured = capture_plan_.decode_stack(record);
    if (!captured) return true;
    const unwind::Stack* const stack = stacks_.unwind_hit(event, *captured);
    event.has_raw_stack = stack == nullptr;
    if (stack == nullptr) return true;
    event.sample = stacks_.sample();
    if (capture_.caller) event.caller = find_caller(*stack);
    if (capture_.shows_stacks) event.stack = stack;
    return true;
  }

private:
  const events::CapturePlan& capture_plan_;
  const events::CaptureSpec& capture_;
  HitStacks& stacks_;
};

// A loss that the program counts.
class CountedLoss final : public RunPart {
public:
  CountedLoss(const bpf::BuiltinProgram& program, std::string_view reason, lost_reason counter)
      : program_(program), reason_(reason), counter_(counter) {}

  void add_losses(std::vector<Loss>& losses) const override {
    losses.push_back({reason_, program_.lost(counter_)});
  }

private:
  const bpf::BuiltinProgram& program_;
  std::string_view reason_;
  lost_reason counter_;
};

// Warns of waiting times that the program could not measure.
class ThreadWaits final : public RunPart {
public:
  ThreadWaits(const bpf::BuiltinProgram& program, output::Output& output)
      : program_(program), output_(output) {}

  void stop() override {
    if (program_.lost(LOST_THREADS_FULL) > 0)
      output_.warn("too many threads: the waiting times of some are not known");
    if (const auto missed = program_.lost(LOST_SWITCHES); missed > 0)
      output_.warn(
          fmt::format("the kernel did not report {} of the threads' switches: the waiting times "
                      "of calls with them are not known",
                      missed));
  }

private:
  const bpf::BuiltinProgram& program_;
  output::Output& output_;
};

class BuiltinSource final : public ProgramSource {
public:
  BuiltinSource(const AttachRequest& request, BinaryCache& binaries, output::Output& output)
      : ProgramSource({.name = "builtin",
                       .probe_requests = builtin_probe_requests(request),
                       .checks_exits = true}),
        request_(request), binaries_(binaries), output_(output), loader_(request, output) {}

  Result<void> prepare(const bpf::KernelFeatures& features) override {
    const auto ids = bpf::find_id_namespace();
    if (!ids) return fail(ids.error());
    environment_.ids = *ids;
    const auto buffer = choose_buffer(request_.buffer, features);
    if (!buffer) return fail(buffer.error());
    buffer_ = *buffer;
    // The programs for perf buffers must load in kernels before 5.7, which do not have
    // bpf_get_ns_current_pid_tgid().
    if (buffer_ == bpf::RecordBuffer::perf && ids->inode != 0 && ids->thread_pid == 0)
      return fail(Error{ErrorKind::unsupported,
                        "in a container perf buffers need a kernel with type information (BTF)"}
                      .hint("use --buffer ring (Linux 5.8)"));
    features_ = features;
    return find_layouts();
  }

  // A dry run does not ask the kernel for its layouts: any offset but 0 makes them known.
  Result<void> check_values(const ResolvedProbes& resolved) override {
    environment_.layouts.process_name = {.group_leader = 1, .comm = 1};
    environment_.layouts.thread = {.address = 1, .robust_list = 1};
    std::vector<events::CapturePoint> points = take_probes(resolved);
    KnownFunctions(request_.capture, points.size(), binaries_).add_to(points, true);
    bpf::BuiltinProgram::Settings not_loaded{.cookie = false};
    return make_capture_plan(not_loaded, points, resolved.types.get());
  }

  Result<void> load(const LoadRequest& request, ResolvedProbes& resolved) override {
    const events::CaptureSpec& capture = request_.capture;
    mechanism_ = request.mechanism;
    const bool cookies = supports_cookies(mechanism_, features_);
    // This program must load in kernels before 5.3, too, which do not have bpf_send_signal().
    if (buffer_ == bpf::RecordBuffer::perf && !cookies && capture.stops_process)
      return fail(Error{ErrorKind::unsupported, "--on-hit stop needs --buffer ring (Linux 5.8)"});
    std::vector<events::CapturePoint> points = take_probes(resolved);
    add_known_calls(points, capture, binaries_, environment_.layouts, output_);
    environment_.filters = request.filter.flags;
    environment_.user = request.filter.uid;
    bpf::BuiltinProgram::Settings settings{.kind = program_kind(mechanism_),
                                           .buffer = buffer_,
                                           .cookie = cookies,
                                           .spans =
                                               static_cast<std::uint32_t>(request_.spans.size()),
                                           .exit_rules = resolved.exit_rules,
                                           .exits = collect_exits(probes_),
                                           .roles = collect_roles(probes_),
                                           .processes = request.filter.processes_fd,
                                           .cgroup = request.filter.cgroup_fd};
    if (capture.stack != events::StackWalk::none) settings.buffer_bytes = stack_buffer_bytes;
    if (auto made = make_capture_plan(settings, points, resolved.types.get()); !made) return made;
    auto program = loader_.load(settings, mechanism_);
    if (!program) return fail(std::move(program).error());
    program_ = std::move(*program);
    builds_in_calls_ = settings.sleepable || buffer_ == bpf::RecordBuffer::perf;
    if (settings.sleepable)
      output_.detail("the program is sleepable: it waits for memory that is not resident");
    else
      capture_plan_.set_is_mapped(
          [this](std::uint32_t pid, std::uint64_t address, std::uint64_t time_ns) {
            return mapped_memory_.contains(static_cast<pid_t>(pid), address,
                                           from_monotonic_ns(time_ns));
          });
    for (Probe& probe : resolved.probes)
      for (PlannedSite& site : probe.sites) {
        const auto number = static_cast<std::uint32_t>(probe.number);
        site.loaded = program_->program(number, site_role(site), site_rule(site));
        site.cookie = cookies ? program_->cookie(number, site_role(site), site_rule(site)) : 0;
      }
    if (request_.graph) call_test_settings_ = std::move(settings);
    return {};
  }

  std::optional<events::PointDescription> describe(const Probe& probe) const override {
    return capture_plan_.describe(probe.number);
  }

  void report_cautions() const override {
    std::set<std::string> reported; // each text once: a static probe may have several points
    for (const Probe& probe : probes_) {
      if (!probe.is_recorded) continue;
      for (const std::string& problem : capture_plan_.describe_problems(probe.number)) {
        const std::string text = display_name(probe.point) + ": " + problem;
        if (reported.insert(text).second) output_.gathered_warning(problem, text);
      }
    }
    if (const std::string caution = explain_clone_arguments(); !caution.empty())
      output_.warn(caution);
    if (request_.stacks.forced_frame_pointers)
      output_.warn(fmt::format("stacks of {} follow frame pointers, as --stack=fp: code without "
                               "them may end a stack or lack frames beyond the caller{}",
                               request_.spans.empty() ? "--by" : "spans",
                               request_.spans.empty() ? " (--count --stack unwinds them)" : ""));
  }

  Result<void> start(const HitProcesses& processes) override {
    record_probes();
    if (auto made = make_parts(processes); !made) return made;
    return program_->arm(true);
  }
  Result<void> stop() override {
    auto stopped = program_->arm(false);
    parts_.stop();
    return stopped;
  }

  void add_to(std::vector<pollfd>& polled) const override {
    polled.push_back({.fd = program_->poll_fd(), .events = POLLIN, .revents = 0});
    parts_.each(&RunPart::add_to, polled);
  }
  bool drain(const Visit& visit) override {
    loader_.poll_test();
    parts_.each(&RunPart::update, RunPart::Time::clock::now());
    const bool more = program_->drain([&](Bytes record) { return visit_record(record, visit); });
    parts_.warn();
    return more;
  }
  SourceState state() const override {
    return {.has_unfinished_record = program_->waits(),
            .unsubmitted = program_->unsubmitted(),
            .has_stopped = !request_.probes.stop_on.empty() && program_->recording_has_stopped()};
  }
  std::vector<Loss> losses() const override {
    std::vector<Loss> losses = {{loss_reasons::buffer_full, program_->lost(LOST_BUFFER_FULL)},
                                {loss_reasons::corrupt, corrupt_},
                                {loss_reasons::undecided, program_->lost(LOST_UNDECIDED)},
                                {loss_reasons::unmapped, program_->lost(LOST_UNMAPPED)}};
    parts_.each(&RunPart::add_losses, losses);
    return losses;
  }
  std::uint64_t discard() override {
    std::uint64_t events = 0;
    const auto count = [&](Bytes record) {
      if (!events::pid_of_new_stack(record)) ++events;
      return true;
    };
    while (program_->drain(count)) {
    }
    return events;
  }

  void count_hits(std::span<Probe> probes) const override {
    const events::CaptureSpec& capture = request_.capture;
    const std::vector<bpf::ProbeCounts> counts = program_->counts();
    const std::uint64_t undecided = program_->lost(LOST_UNDECIDED) + program_->lost(LOST_UNMAPPED);
    for (Probe& probe : probes) {
      const bpf::ProbeCounts& counted = counts[probe.number];
      probe.ended_no_call = counted.ended_no_call;
      probe.invisible = counted.invisible.all();
      if (capture.pair_calls) probe.unreturned = counted.no_return;
      probe.left_out = {.sampled_out = counted.sampled_out, .rate_limited = counted.rate_limited};
      if (!probe.is_recorded) {
        probe.hits = counted.triggers;
        continue;
      }
      probe.excluded_hits = counted.excluded;
      if (!request_.spans.empty()) {
        probe.hits = probe.shown = counted.entries;
        continue;
      }
      // `returns` includes the returns of calls that were left out.
      const bool counts_calls = capture.pair_calls || capture.entry_decides;
      probe.hits = counts_calls ? counted.entries : counted.entries + counted.returns;
      probe.shown = shown_hits(counted, capture);
      probe.hidden_reason = explain_hidden_hits(counted, capture, undecided);
    }
  }
  // With CostOf::hit: a filter by user or control group would exclude the hits of the measurement.
  std::optional<HitCost> measure_cost(CostOf what) const override {
    if (what == CostOf::call)
      return call_test_settings_ && !probes_.empty()
                 ? measure_call(*call_test_settings_, mechanism_, probes_.front())
                 : std::nullopt;
    if ((environment_.filters & (FILTER_BY_USER | FILTER_BY_CGROUP)) != 0) return std::nullopt;
    return measure_hits(*program_, mechanism_, probes_);
  }
  void report_aggregates(RunPart::Time now) override {
    parts_.each(&RunPart::report_aggregates, now);
  }
  ProgramResults finish() override {
    ProgramResults results{.has_started = program_->recording_has_started()};
    parts_.each(&RunPart::finish, results);
    return results;
  }

private:
  // Finds the layouts that the request needs. Fails if it cannot be done without one of them.
  Result<void> find_layouts() {
    events::KernelLayouts& layouts = environment_.layouts;
    if (copies_stacks(request_.capture.stack))
      layouts.return_instances =
          bpf::find_return_instance_layout().value_or(return_instance_layout{});
    if (probes_returns_by_uretprobe())
      layouts.nesting = bpf::find_nesting_layout().value_or(nesting_layout{});
    if (request_.capture.tracks_causes) {
      const auto layout = bpf::find_task_state_layout();
      if (!layout)
        return fail(Error{ErrorKind::unsupported,
                          "why threads wait is not known: this kernel has no type information "
                          "(BTF), or programs may not read its memory"}
                        .hint("--cpu needs neither: it shows how long threads wait"));
      layouts.task_state = *layout;
    }
    if (std::ranges::find(request_.capture.filter.terms, COMPARE_PROCESS_NAME,
                          &events::ConditionSpec::built_in) != request_.capture.filter.terms.end())
      layouts.process_name = bpf::find_process_name_layout().value_or(process_name_layout{});
    return {};
  }

  // Takes the probes, notes whether uretprobes probe their returns, and warns of unknown callers.
  // Returns their points, yet without what is captured of known functions.
  std::vector<events::CapturePoint> take_probes(const ResolvedProbes& resolved) {
    probes_ = resolved.probes;
    environment_.by_uretprobe = probes_returns_by_uretprobe();
    auto points = make_capture_points(probes_, request_.capture, binaries_);
    find_return_addresses(points, request_.capture, binaries_);
    warn_of_unknown_callers(points, request_.capture, probes_, resolved.exit_rules, output_);
    return points;
  }

  // Makes the capture plan and copies it to the settings, then compiles the conditions of --until.
  // `known`: see ResolvedProbes::types.
  Result<void> make_capture_plan(bpf::BuiltinProgram::Settings& settings,
                                 std::span<const events::CapturePoint> points,
                                 const TypedProbes* known) {
    types_.emplace(binaries_, request_.capture);
    if (known != nullptr) types_->take_files(*known);
    // Tests the kernel while the types of further functions are read.
    if (loader_.may_need_test(settings, environment_.filters))
      types_->set_take_values([this](const events::ValuePlan& values) {
        if (std::ranges::any_of(values.readings(), events::loads_memory))
          loader_.begin_test(mechanism_);
      });
    auto plan = events::CapturePlan::make(request_.capture, points, &*types_, environment_);
    for (const std::string& warning : types_->warnings()) output_.warn_once(warning);
    if (!plan) return fail(std::move(plan).error());
    capture_plan_ = std::move(*plan);
    capture_plan_.set_reads_proc(true);
    settings.probes = make_program_probes();
    settings.run = capture_plan_.settings();
    settings.plans = capture_plan_.plans();
    settings.filters = capture_plan_.filters();
    return make_triggers();
  }

  // Compiles the conditions of --until for the values that events have.
  Result<void> make_triggers() {
    if (!request_.keep) return {};
    auto made = EventTriggers::make(*request_.keep, output_);
    if (!made) return fail(std::move(made).error());
    for (const Probe& probe : probes_) made->add_probe(probe, capture_plan_.describe(probe.number));
    triggers_ = std::make_unique<EventTriggers>(std::move(*made));
    return triggers_->check();
  }

  // Makes the parts that the request asks for. Their order is the order of losses and reports, and
  // the order in which they take an event.
  Result<void> make_parts(const HitProcesses& processes) {
    const events::CaptureSpec& capture = request_.capture;
    const AggregateSpec& aggregates = request_.aggregates;
    const resolve::TargetOptions& where = request_.probes.target_options;
    const bool has_spans = !request_.spans.empty();
    const bool at_exits = phases_of(capture).exit && !probes_returns_by_uretprobe();
    if (triggers_) parts_.add(std::move(triggers_));
    parts_.add<NamespaceIds>();
    std::unique_ptr<HitStacks> stacks;
    if (capture.stack != events::StackWalk::none) {
      stacks = std::make_unique<HitStacks>(capture, request_.stacks, where, processes, output_);
      if (request_.keep) stacks->hold_samples();
      if (!has_spans) parts_.add<EventStacks>(capture_plan_, capture, *stacks);
    }
    if (!has_spans && (aggregates.counts || aggregates.histograms))
      parts_.add<KernelAggregates>(
          aggregates, capture, where, at_exits, *program_, probes_,
          [this](Bytes record) { return capture_plan_.decode(record); }, processes.find_name,
          output_);
    if (stacks && aggregates.counts && !has_spans)
      parts_.add<CountedEvents>(stack_totals(request_), probes_, stacks.get(), processes.find_name,
                                output_);
    if (capture.count_by_process || capture.count_stacks || !capture.groups.by.empty())
      parts_.add<CountedLoss>(*program_, loss_reasons::table_full, LOST_TABLE_FULL);
    if (probes_returns_by_uretprobe())
      parts_.add<CountedLoss>(*program_, loss_reasons::nested, LOST_NESTED);
    if (has_spans)
      parts_.add<SpanReport>(request_, *program_, capture_plan_, probes_, stacks.get(), output_);
    if (has_spans && counts_spans(request_))
      parts_.add<CountedEvents>(span_totals(request_), std::span<const Probe>(), stacks.get(),
                                processes.find_name, output_);
    if (capture.pair_calls)
      parts_.add<CallTable>(*program_);
    else if (builds_in_calls_ || !capture.groups.by.empty() || has_spans)
      parts_.add<CountedLoss>(*program_, loss_reasons::hits_at_once, LOST_CALLS_FULL);
    if ((capture_plan_.settings().filter_features & 1U << COMPARE_CALLER) != 0) {
      auto callers =
          CallerCode::start(capture.filter, probes_, where, processes, *program_, output_);
      if (!callers) return fail(std::move(callers).error());
      parts_.add(std::move(*callers));
    }
    if (capture.tracks_waits) parts_.add<ThreadWaits>(*program_, output_);
    if (stacks) parts_.add(std::move(stacks));
    return {};
  }

  // Gives the probes to the recorders: a saved run is filtered and counted by what is known of
  // them.
  void record_probes() const {
    if (!output_.has_recorders()) return;
    for (const Probe& probe : probes_)
      if (probe.is_recorded)
        output_.record(
            output::ProbeDescription{.point = &probe.point,
                                     .probe = static_cast<std::uint32_t>(probe.number),
                                     .description = capture_plan_.describe(probe.number)});
  }

  bool probes_returns_by_uretprobe() const {
    return request_.probes.return_at == ReturnAt::trampoline && phases_of(request_.capture).exit;
  }

  // Returns false if no more records are wanted.
  bool visit_record(Bytes record, const Visit& visit) {
    if (const auto pid = events::pid_of_new_stack(record)) {
      parts_.each(&RunPart::on_new_stack, static_cast<pid_t>(*pid));
      return true;
    }
    auto event = capture_plan_.decode(record);
    if (!event) {
      ++corrupt_;
      return true;
    }
    parts_.take(record, *event);
    if (!request_.capture.send_events && !event->is_only_trigger) return true; // only counted
    return visit(*event);
  }

  // Returns one warning for all clones with changed arguments, or an empty string.
  std::string explain_clone_arguments() const {
    std::vector<const resolve::ProbePoint*> clones;
    for (const Probe& probe : probes_)
      if (probe.point.clone_of && symbols::has_other_arguments(*probe.point.symbol) &&
          capture_plan_.uses_argument_numbers(probe.number))
        clones.push_back(&probe.point);
    if (clones.empty()) return {};
    const std::string others =
        clones.size() == 1 ? "" : " and " + counted(clones.size() - 1, "other", "others");
    return "the compiler may have removed or reordered arguments of the " +
           std::string(clones.size() == 1 ? "clone " : "clones ") + display_name(*clones.front()) +
           others + ": arg0, arg1, … may not be those of the source";
  }

  std::vector<bpf::BuiltinProgram::Probe> make_program_probes() const {
    std::vector<bpf::BuiltinProgram::Probe> loaded;
    loaded.reserve(probes_.size());
    for (const Probe& probe : probes_) {
      const std::uint32_t triggers = probe.triggers & ~static_cast<std::uint32_t>(ENDS_WAITING);
      const bool is_only_trigger =
          triggers != 0 && (!probe.is_recorded || !phases_of(request_.capture).entry);
      loaded.push_back({.plan = capture_plan_.probe_plan(probe.number),
                        .shared_offset = mechanism_ == probe::Mechanism::tracefs
                                             ? uprobe_offset(probe.point)
                                             : std::nullopt,
                        .triggers = is_only_trigger ? triggers | IS_ONLY_TRIGGER : triggers});
    }
    return loaded;
  }

  const AttachRequest& request_;
  BinaryCache& binaries_;
  output::Output& output_;
  bpf::KernelFeatures features_;
  bpf::RecordBuffer buffer_ = bpf::RecordBuffer::ring;
  probe::Mechanism mechanism_ = probe::Mechanism::multi;
  events::CaptureEnvironment environment_;
  BuiltinLoader loader_;
  bool builds_in_calls_ = false; // the program builds records in the map of open calls
  process::MappedMemory mapped_memory_;
  std::optional<TypedProbes> types_; // capture_plan_ borrows them
  events::CapturePlan capture_plan_;
  std::optional<bpf::BuiltinProgram> program_;
  // With a graph: for measure_cost(CostOf::call).
  std::optional<bpf::BuiltinProgram::Settings> call_test_settings_;
  std::span<const Probe> probes_;
  std::unique_ptr<EventTriggers> triggers_; // until start()
  RunParts parts_;
  std::uint64_t corrupt_ = 0;
};

} // namespace

std::vector<ProbeRequest> builtin_probe_requests(const AttachRequest& request) {
  const ProbeSelection& selection = request.probes;
  std::vector<ProbeRequest> requests = span_requests(request.spans);
  const auto add = [&](const std::vector<resolve::TargetedFunction>& functions,
                       ProbeRequest model) {
    model.static_probes = selection.static_probes;
    std::ranges::move(split_by_target(functions, model), std::back_inserter(requests));
  };
  if (request.spans.empty())
    add(selection.functions, {.on_entry = phases_of(request.capture).entry,
                              .on_return = phases_of(request.capture).exit});
  add(selection.start_on, {.triggers = STARTS_RECORDING});
  add(selection.stop_on, {.triggers = STOPS_RECORDING});
  add(selection.until, {.triggers = ENDS_WAITING}); // each with a probe of its own
  if (request.graph)
    add(request.graph->roots, {.on_entry = true, .on_return = true, .graph_roots = true});
  return requests;
}

std::unique_ptr<ProgramSource> make_builtin_source(const AttachRequest& request,
                                                   BinaryCache& binaries, output::Output& output) {
  return std::make_unique<BuiltinSource>(request, binaries, output);
}

} // namespace uprobectl::trace
