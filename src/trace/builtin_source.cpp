// SPDX-License-Identifier: Apache-2.0
#include "bpf/kernel_types.hpp"
#include "bpf/load_error.hpp"
#include "bpf/pid_namespace.hpp"
#include "events/plan_layout.hpp"
#include "probe/self_probe.hpp"
#include "probe/sleepable.hpp"
#include "process/mapped_memory.hpp"
#include "symbols/classify.hpp"
#include "trace/aggregates.hpp"
#include "trace/binary_cache.hpp"
#include "trace/caller_code.hpp"
#include "trace/diagnosis.hpp"
#include "trace/event_totals.hpp"
#include "trace/group_counts.hpp"
#include "trace/known_functions.hpp"
#include "trace/probe_program.hpp"
#include "trace/program_sites.hpp"
#include "trace/returns.hpp"
#include "trace/span_report.hpp"
#include "trace/triggers.hpp"
#include "trace/typed_probes.hpp"
#include "uprobectl/process.hpp"
#include "util/clock.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <map>
#include <set>
#include <unistd.h>

namespace uprobectl {

namespace {

// The buffer size with stacks: a record with a stack is a hundred times as large as one without.
constexpr std::uint32_t stack_buffer_bytes = 32U << 20;

// The cost of fewer hits is not worth the time to measure it.
constexpr std::uint64_t min_hits_with_cost = 1000;

// Whether the argument `size` is the size of one of `count` elements, as that of calloc().
bool has_element_size(const KnownCall& call) {
  const auto has_number = [&](std::string_view name) {
    return std::ranges::any_of(call.arguments, [&](const ArgumentSpec& spec) {
      return spec.name == name && spec.type == ArgumentType::u64;
    });
  };
  return has_number("count") && has_number("size");
}

class BuiltinSource final : public ProbeProgram {
public:
  BuiltinSource(const AttachRequest& request, BinaryCache& binaries, Exports& exports,
                Output& output)
      : request_(request), binaries_(binaries), exports_(exports), output_(output) {}

  std::string name() const override { return "builtin"; }
  std::vector<ProbeRequest> probe_requests() const override {
    const ProbeSelection& selection = request_.probes;
    std::vector<ProbeRequest> requests = span_requests(request_.spans);
    const auto add = [&](const std::vector<TargetedFunction>& functions, ProbeRequest model) {
      model.static_probes = selection.static_probes;
      std::ranges::move(split_by_target(functions, model), std::back_inserter(requests));
    };
    if (request_.spans.empty())
      add(selection.functions,
          {.on_entry = records_entries(),
           .on_return = request_.capture.on_return || request_.capture.pair_calls});
    add(selection.start_on, {.bounds = STARTS_RECORDING});
    add(selection.stop_on, {.bounds = STOPS_RECORDING});
    add(selection.until, {.bounds = ENDS_WAITING}); // each with a probe of its own
    if (request_.graph)
      add(request_.graph->roots, {.on_entry = true, .on_return = true, .graph_roots = true});
    return requests;
  }

  std::size_t other_programs() const override { return 0; }

  Result<void> prepare(const KernelFeatures& features) override {
    const auto ids = find_id_namespace();
    if (!ids) return fail(ids.error());
    environment_.ids = *ids;
    const auto buffer = choose_buffer(request_.buffer, features);
    if (!buffer) return fail(buffer.error());
    buffer_ = *buffer;
    // Their programs are for kernels that do not have the helper.
    if (buffer_ == RecordBuffer::perf && ids->inode != 0 && ids->thread_pid == 0)
      return fail(Error{ErrorKind::unsupported,
                        "in a container perf buffers need a kernel with type information (BTF)"}
                      .hint("use --buffer ring (Linux 5.8)"));
    features_ = features;
    return find_layouts();
  }
  std::optional<ProgramKind> kind() const override { return std::nullopt; }
  void set_filter(const ProgramFilter& filter) override { filter_ = filter; }

  bool checks_exits() const override { return true; }

  void place(ResolvedProbes& resolved, GroupSpec& groups) override {
    if (!request_.capture.uses_values()) return;
    TypedProbes types(binaries_, request_.capture);
    std::vector<CapturePoint> points;
    points.reserve(resolved.probes.size());
    for (const Probe& probe : resolved.probes)
      points.push_back({.point = &probe.point,
                        .code = binaries_.of(probe.point).code_abi(probe.point, false),
                        .is_recorded = probe.is_recorded,
                        .is_trigger = is_trigger(probe),
                        .roles = probe.roles});
    KnownFunctions(request_.capture, points.size(), binaries_).add_to(points, false);
    types.prefer_variables(points, groups);
    std::vector<const ProbePoint*> moved;
    for (Probe& probe : resolved.probes) {
      const bool is_entry_only = probe.bounds == 0 && !probe.is_graph_root &&
                                 probe.sites.size() == 1 && !probe.sites.front().on_return;
      if (!is_entry_only) continue;
      const auto end = types.choose_prologue(points[probe.number]);
      if (!end)
        output_.detail(fmt::format("{}: its parameters are not read behind its prologue: {}",
                                   display_name(probe.point), end.error()));
      if (!end || !*end) continue;
      probe.point.uprobe_distance = (*end)->size;
      probe.point.effect = (*end)->effect;
      moved.push_back(&probe.point);
    }
    report_moved(moved);
    placed_.emplace(std::move(types));
  }

  Result<void> load(Mechanism mechanism, ResolvedProbes& resolved) override {
    mechanism_ = mechanism;
    const bool cookies = supports_cookies(mechanism, features_);
    // This program is for kernels before 5.3, too, which do not have the helper.
    if (buffer_ == RecordBuffer::perf && !cookies && request_.capture.stops_process)
      return fail(Error{ErrorKind::unsupported, "--on-hit stop needs --buffer ring (Linux 5.8)"});
    probes_ = resolved.probes;
    const bool strings = captures_type(request_.capture, ArgumentType::cxx_string);
    std::vector<CapturePoint> points;
    points.reserve(probes_.size());
    for (const Probe& probe : probes_)
      points.push_back({.point = &probe.point,
                        .code = binaries_.of(probe.point).code_abi(probe.point, strings),
                        .is_recorded = probe.is_recorded,
                        .is_trigger = is_trigger(probe),
                        .roles = probe.roles});
    add_return_addresses(points);
    add_known(points);
    environment_.by_uretprobe = by_uretprobe();
    environment_.filters = filter_.filters;
    environment_.user = filter_.user;
    prepare_types(cookies);
    auto plan = CapturePlan::make(request_.capture, points, &*typed_, environment_);
    for (const std::string& warning : typed_->warnings()) output_.warn_once(warning);
    if (!plan) return fail(std::move(plan).error());
    plan_ = std::move(*plan);
    plan_.set_reads_proc(true);
    if (auto made = make_triggers(); !made) return made;
    const BuiltinProgram::Settings settings{.kind = program_kind(mechanism),
                                            .buffer = buffer_,
                                            .cookie = cookies,
                                            .probes = make_program_probes(mechanism),
                                            .spans =
                                                static_cast<std::uint32_t>(request_.spans.size()),
                                            .exit_rules = resolved.exit_rules,
                                            .exits = collect_exits(probes_),
                                            .roles = collect_roles(probes_),
                                            .run = plan_.settings(),
                                            .plans = plan_.plans(),
                                            .filters = plan_.filters(),
                                            .processes = filter_.processes,
                                            .cgroup = filter_.cgroup,
                                            .buffer_bytes = buffer_bytes()};
    if (auto loaded = load_program(settings, mechanism); !loaded) return loaded;
    for (Probe& probe : resolved.probes)
      for (PlannedSite& site : probe.sites) {
        const auto number = static_cast<std::uint32_t>(probe.number);
        site.loaded = program_->program(number, site_role(site), site_rule(site));
        site.cookie = cookies ? program_->cookie(number, site_role(site), site_rule(site)) : 0;
      }
    return {};
  }

  std::optional<PointDescription> describe(const Probe& probe) const override {
    return plan_.describe(probe.number);
  }

  void report_cautions() const override {
    std::set<std::string> reported; // static probes may have several places
    for (const Probe& probe : probes_) {
      if (!probe.is_recorded) continue;
      for (const std::string& problem : plan_.describe_problems(probe.number)) {
        const std::string text = display_name(probe.point) + ": " + problem;
        if (reported.insert(text).second) output_.gathered_warning(problem, text);
      }
    }
    if (const std::string caution = explain_clone_arguments(); !caution.empty())
      output_.warn(caution);
    if (request_.stacks.replaces_unwinding)
      output_.warn(
          "stacks of spans follow frame pointers, as --stack=fp: code without them may end "
          "a stack or lack frames behind the caller");
  }

  Result<void> start(const HitProcesses& who) override {
    copy_probes();
    if (request_.capture.stack != StackWalk::none) {
      stacks_.emplace(request_.capture, request_.stacks, request_.probes.target_options, who,
                      exports_, output_);
      if (request_.keep) stacks_->hold_samples();
      if (request_.aggregates.counts && request_.spans.empty()) count_stacks(who);
    }
    if (!request_.spans.empty())
      spans_.emplace(request_, *program_, plan_, probes_, stacks_ ? &*stacks_ : nullptr,
                     who.find_name, exports_, output_);
    else if (!request_.capture.groups.by.empty())
      groups_.emplace(request_.aggregates, request_.capture, request_.probes.target_options,
                      at_exits(), *program_, probes_, exports_,
                      [this](Bytes record) { return plan_.decode(record); });
    else if (request_.aggregates.counts || request_.aggregates.histograms)
      kernel_aggregates_.emplace(request_.aggregates, request_.capture,
                                 request_.probes.target_options, at_exits(), *program_, probes_,
                                 exports_, who.find_name);
    if ((plan_.settings().filter_features & 1U << COMPARE_CALLER) != 0) {
      auto callers = CallerCode::start(request_.capture.filter, probes_,
                                       request_.probes.target_options, who, *program_, output_);
      if (!callers) return fail(std::move(callers).error());
      callers_ = std::move(*callers);
    }
    return program_->arm(true);
  }
  Result<void> stop() override {
    auto stopped = program_->arm(false);
    if (callers_) callers_->report_unknown();
    if (program_->lost(LOST_THREADS_FULL) > 0)
      output_.warn("too many threads: the waiting times of some are not known");
    return stopped;
  }

  void add_to(std::vector<pollfd>& polled) const override {
    polled.push_back({.fd = program_->poll_fd(), .events = POLLIN, .revents = 0});
    if (stacks_) stacks_->add_to(polled);
    if (callers_) callers_->add_to(polled);
  }
  bool has_started() const override { return program_->recording_has_started(); }
  bool has_stopped() const override {
    return !request_.probes.stop_on.empty() && program_->recording_has_stopped();
  }
  bool drain(const Visit& visit) override {
    if (sleepable_test_ && sleepable_test_->has_ended()) sleepable_test_.reset();
    if (stacks_) stacks_->read_mapping_events();
    if (callers_) callers_->update();
    if (request_.capture.pair_calls) forget_calls();
    if (spans_) spans_->look_for_ended(std::chrono::steady_clock::now());
    return program_->drain([&](Bytes record) { return take(record, visit); });
  }
  bool waits() const override { return program_->waits(); }
  std::uint64_t unsubmitted() const override { return program_->unsubmitted(); }
  std::uint64_t corrupt() const override { return 0; }
  std::vector<Loss> losses() const override {
    std::vector<Loss> losses = {{loss_reasons::buffer_full, program_->lost(LOST_BUFFER_FULL)},
                                {loss_reasons::corrupt, corrupt_},
                                {loss_reasons::undecided, program_->lost(LOST_UNDECIDED)},
                                {loss_reasons::unmapped, program_->lost(LOST_UNMAPPED)}};
    const bool by_values = !request_.capture.groups.by.empty();
    if (request_.capture.count_by_process || request_.capture.count_stacks || by_values)
      losses.push_back({loss_reasons::table_full, program_->lost(LOST_TABLE_FULL)});
    if (by_uretprobe()) losses.push_back({loss_reasons::nested, program_->lost(LOST_NESTED)});
    if (!request_.spans.empty()) {
      const std::vector<span_counts> counts = program_->counts_of_spans();
      losses.push_back({loss_reasons::spans_full, sum_of(counts, SPANS_FULL)});
      losses.push_back({loss_reasons::span_keys, sum_of(counts, SPANS_NO_KEY)});
    }
    if (!request_.capture.pair_calls) {
      if (builds_in_calls_ || by_values || !request_.spans.empty())
        losses.push_back({loss_reasons::hits_at_once, program_->lost(LOST_CALLS_FULL)});
      return losses;
    }
    losses.push_back({loss_reasons::calls_full, program_->lost(LOST_CALLS_FULL)});
    losses.push_back({loss_reasons::no_return, program_->lost(LOST_NO_RETURN)});
    const std::uint64_t given_up = given_up_calls();
    losses.push_back({loss_reasons::gave_way, given_up});
    losses.push_back({loss_reasons::entry_unseen, missed_entries(given_up)});
    return losses;
  }
  std::uint64_t rate_limited() const override {
    if (!request_.capture.limits.max_rate) return 0;
    std::uint64_t hits = 0;
    for (const ProbeCounts& counted : program_->counts()) hits += counted.rate_limited;
    return hits;
  }
  std::uint64_t passed_hits() const override {
    std::uint64_t hits = 0;
    for (const ProbeCounts& counted : program_->counts()) hits += counted.passed;
    return hits;
  }
  std::string left_calls() const override {
    constexpr std::size_t max_named = 3;
    if (!request_.capture.pair_calls || program_->lost(LOST_NO_RETURN) == 0) return {};
    std::map<std::string, std::uint64_t> calls;
    const std::vector<ProbeCounts> counts = program_->counts();
    for (const Probe& probe : probes_)
      if (const std::uint64_t left = counts[probe.number].no_return; left > 0)
        calls[display_name(probe.point)] += left;
    std::vector<std::pair<std::string, std::uint64_t>> most(calls.begin(), calls.end());
    std::ranges::sort(most, [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    std::string text;
    for (std::size_t i = 0; i < most.size() && i < max_named; ++i)
      text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", most[i].first, most[i].second);
    if (most.size() > max_named) text += fmt::format(" and {} more", most.size() - max_named);
    return text;
  }
  std::uint64_t discard() override {
    std::uint64_t events = 0;
    const auto count = [&](Bytes record) {
      if (!process_with_new_stack(record)) ++events;
      return true;
    };
    while (program_->drain(count)) {
    }
    return events;
  }

  void count_hits(std::span<Probe> probes) const override {
    const std::vector<ProbeCounts> counts = program_->counts();
    const std::uint64_t undecided = program_->lost(LOST_UNDECIDED) + program_->lost(LOST_UNMAPPED);
    for (Probe& probe : probes) {
      const ProbeCounts& counted = counts[probe.number];
      if (!probe.is_recorded) {
        probe.hits = counted.bounds;
        continue;
      }
      probe.left_out = {.sampled_out = counted.sampled_out, .rate_limited = counted.rate_limited};
      probe.excluded = counted.excluded;
      if (!request_.spans.empty()) {
        probe.hits = probe.shown = counted.entries;
        continue;
      }
      // Returns of calls that were left out are among the returns.
      const bool counts_calls = request_.capture.pair_calls || request_.capture.entry_decides;
      probe.hits = counts_calls ? counted.entries : counted.entries + counted.returns;
      probe.shown = shown_hits(counted, request_.capture);
      probe.hidden_reason = explain_hidden_hits(counted, request_.capture, undecided);
    }
  }
  // The program of the probe with the most hits runs at a function of ours, with everything that
  // the run has asked for. A filter by user or control group would exclude our hits.
  std::optional<HitCost> measure_cost() const override {
    if ((filter_.filters & (FILTER_BY_USER | FILTER_BY_CGROUP)) != 0) return std::nullopt;
    HitCost cost;
    const Probe* most_hit = nullptr;
    std::uint64_t most = 0;
    const std::vector<ProbeCounts> counts = program_->counts();
    for (const Probe& probe : probes_) {
      const ProbeCounts& counted = counts[probe.number];
      const std::uint64_t hits = counted.entries + counted.returns + counted.excluded +
                                 counted.unpaired + counted.filtered + counted.invisible +
                                 counted.outside + (probe.is_recorded ? 0 : counted.bounds);
      cost.hits += hits;
      if (hits <= most) continue;
      most = hits;
      most_hit = &probe;
    }
    if (most_hit == nullptr || cost.hits < min_hits_with_cost) return std::nullopt;
    const std::vector<SelfProbe> probes = make_self_probes(*most_hit, *program_);
    const auto call = measure_call_cost(mechanism_, probes, [&] {
      static_cast<void>(program_->rearm_for(static_cast<std::uint32_t>(::getpid())));
    });
    if (!call) return std::nullopt;
    cost.each = *call / static_cast<std::int64_t>(probes.size());
    return cost;
  }
  // The copy has its own maps and does not filter by process.
  std::optional<std::chrono::nanoseconds> measure_expected_cost() const override {
    if (!loaded_settings_ || probes_.empty()) return std::nullopt;
    BuiltinProgram::Settings settings = *loaded_settings_;
    settings.run.flags &= ~(FILTER_BY_PROCESS | FILTER_BY_USER | FILTER_BY_CGROUP);
    settings.processes = settings.cgroup = -1;
    auto copy = BuiltinProgram::load(settings);
    if (!copy) return std::nullopt;
    const std::vector<SelfProbe> probes = make_self_probes(probes_.front(), *copy);
    return measure_call_cost(mechanism_, probes, [&] {
      static_cast<void>(copy->rearm_for(static_cast<std::uint32_t>(::getpid())));
    });
  }
  void report_aggregates(KernelAggregates::Time now) override {
    if (kernel_aggregates_) kernel_aggregates_->report(now, output_);
    if (spans_) spans_->report_aggregates(now);
    if (groups_) groups_->report(now, output_);
    if (totals_) // without values that could be missing
      static_cast<void>(totals_->end_interval(to_monotonic_ns(now), output_));
  }
  void report_spans() override {
    if (spans_) spans_->finish();
  }
  const StackTotals* stacks() override { return stacks_ ? &stacks_->totals() : nullptr; }
  std::optional<std::uint64_t> open_calls() const override {
    if (!request_.capture.pair_calls) return std::nullopt;
    return program_->open_calls().waiting + ended_calls_;
  }
  std::uint64_t without_stack() const override {
    if (groups_) return groups_->without_stack();
    if (spans_) return spans_->without_stack();
    return kernel_aggregates_ ? kernel_aggregates_->without_stack() : 0;
  }
  std::uint64_t invisible_hits() const override {
    std::uint64_t hits = 0;
    for (const ProbeCounts& counted : program_->counts()) hits += counted.invisible;
    return hits;
  }

private:
  // Finds the layouts that the request needs. Fails if it cannot be done without one of them.
  Result<void> find_layouts() {
    KernelLayouts& layouts = environment_.layouts;
    if (copies_stacks(request_.capture.stack))
      layouts.return_instances = find_return_instance_layout().value_or(return_instance_layout{});
    if (by_uretprobe()) layouts.nesting = find_nesting_layout().value_or(nesting_layout{});
    if (request_.capture.tracks_causes) {
      const auto layout = find_task_state_layout();
      if (!layout)
        return fail(Error{ErrorKind::unsupported,
                          "why threads wait is not known: this kernel has no type information "
                          "(BTF), or programs may not read its memory"}
                        .hint("--cpu needs neither: it shows how long threads wait"));
      layouts.task_state = *layout;
    }
    if (std::ranges::find(request_.capture.filter.terms, COMPARE_PROCESS_NAME,
                          &ConditionSpec::built_in) != request_.capture.filter.terms.end())
      layouts.process_name = find_process_name_layout().value_or(process_name_layout{});
    return {};
  }

  // Begins to count the stacks that are unwound.
  void count_stacks(const HitProcesses& who) {
    counted_ = {.aggregates = request_.aggregates,
                .by_process = request_.capture.count_by_process,
                .by_stack = true,
                .by_arrival = true};
    counted_.aggregates.histograms = false; // the kernel measures
    totals_.emplace(counted_, values_, who.find_name);
    for (const Probe& probe : probes_)
      totals_->add_point(probe.point, static_cast<std::uint32_t>(probe.number));
    totals_->begin(clock_ns(CLOCK_MONOTONIC));
  }

  // Gives the probes to a saved run, which filters and counts by what is known of them.
  void copy_probes() const {
    if (!output_.is_copied()) return;
    for (const Probe& probe : probes_)
      if (probe.is_recorded)
        output_.write_copy(ProbedRecord{.point = &probe.point,
                                        .probe = static_cast<std::uint32_t>(probe.number),
                                        .description = plan_.describe(probe.number)});
  }

  // Whether the run reads memory, for which a sleepable program may wait, and uses nothing that
  // Linux rejects in one: the maps of control groups and stacks.
  bool can_wait(const BuiltinProgram::Settings& settings) const {
    const builtin_settings& run = settings.run;
    const unsigned excluded = COUNT_STACKS | SPAN_STACKS | FILTER_BY_CGROUP;
    const bool reads = reads_memory(run, settings.plans, settings.filters.filters) ||
                       std::ranges::any_of(settings.exit_rules, loads_memory, &exit_rule::tested);
    // With perf events and tracefs, Linux before 6.10 lets other hits on this CPU wait as well:
    // only for pages of processes that were asked for.
    const ProcessFilter& who = request_.processes;
    const bool is_for_all = who.all || (who.pids.empty() && who.names.empty() &&
                                        who.command.empty() && !request_.probes.target_options.app);
    if (settings.kind == ProgramKind::plain && is_for_all) return false;
    return !request_.no_fault && settings.cookie && settings.buffer == RecordBuffer::ring &&
           (run.flags & excluded) == 0 && (run.group_by & BY_STACK) == 0 && reads;
  }

  // Halves the buffer, and with it the tables, until the program fits into the memory that the
  // kernel permits.
  Result<BuiltinProgram> load_into_limit(BuiltinProgram::Settings& settings) {
    constexpr std::uint32_t min_bytes = 64U << 10U;
    const std::uint32_t wanted = settings.buffer_bytes;
    auto program = BuiltinProgram::load(settings);
    while (!program && program.error().kind == ErrorKind::not_permitted &&
           settings.buffer_bytes > min_bytes && exceeds_bpf_memory_limit(EPERM)) {
      settings.buffer_bytes /= 2;
      program = BuiltinProgram::load(settings);
    }
    if (program && settings.buffer_bytes < wanted)
      output_.warn(fmt::format("RLIMIT_MEMLOCK limits BPF memory on this kernel: the buffer has {} "
                               "KiB instead of {}, so more events may be lost",
                               settings.buffer_bytes >> 10U, wanted >> 10U));
    return program;
  }

  Result<void> load_program(BuiltinProgram::Settings settings, Mechanism mechanism) {
    settings.sleepable = can_wait(settings);
    // Loading is safe on all kernels. The test runs meanwhile.
    if (!settings.sleepable)
      sleepable_test_.reset();
    else if (!sleepable_test_)
      sleepable_test_.emplace(start_sleepable_test(mechanism));
    auto program = load_into_limit(settings);
    if (settings.sleepable && !(program && sleepable_test_->answer() == 1)) {
      output_.detail(program
                         ? "sleepable programs do not run at probes of this kernel"
                         : "the sleepable program cannot be loaded: " + program.error().message);
      settings.sleepable = false;
      program = load_into_limit(settings);
    }
    if (!program) return fail(std::move(program).error());
    program_ = std::move(*program);
    if (request_.graph) loaded_settings_ = settings;
    builds_in_calls_ = settings.sleepable || buffer_ == RecordBuffer::perf;
    if (settings.sleepable)
      output_.detail("the program is sleepable: it waits for memory that is not resident");
    else
      plan_.set_is_mapped([this](std::uint32_t pid, std::uint64_t address, std::uint64_t time_ns) {
        return mapped_memory_.contains(static_cast<pid_t>(pid), address,
                                       from_monotonic_ns(time_ns));
      });
    return {};
  }

  // Whether can_wait() will be true of a run that only reads values and sends them, if one of them
  // is in memory. Nothing is lost if it is not: other runs are tested later.
  bool will_wait_for_values(bool cookies) const {
    const CaptureSpec& capture = request_.capture;
    return !request_.no_fault && cookies && buffer_ == RecordBuffer::ring &&
           program_kind(mechanism_) != ProgramKind::plain && capture.send_events &&
           !capture.count_stacks && capture.groups.by.empty() &&
           (filter_.filters & FILTER_BY_CGROUP) == 0;
  }

  // Compiles the conditions of --until for what events have.
  Result<void> make_triggers() {
    if (!request_.keep) return {};
    auto made = EventTriggers::make(*request_.keep);
    if (!made) return fail(std::move(made).error());
    triggers_ = std::move(*made);
    for (const Probe& probe : probes_) triggers_->add_probe(probe, plan_.describe(probe.number));
    return triggers_->check(output_);
  }

  void prepare_types(bool cookies) {
    typed_.emplace(binaries_, request_.capture);
    if (placed_) typed_->take_files(*placed_);
    // Tests the kernel while the types of further functions are read.
    if (will_wait_for_values(cookies))
      typed_->set_take_values([this](const ValuePlan& values) {
        if (!sleepable_test_ && std::ranges::any_of(values.readings(), loads_memory))
          sleepable_test_.emplace(start_sleepable_test(mechanism_));
      });
  }

  void report_moved(std::span<const ProbePoint* const> moved) const {
    if (moved.empty()) return;
    for (const ProbePoint* point : moved)
      output_.detail(fmt::format("{} is probed behind its prologue, at +{:#x}",
                                 display_name(*point), point->uprobe_distance));
    const ProbePoint& first = *moved.front();
    const std::string others =
        moved.size() == 1 ? fmt::format("is probed behind its prologue, at +{:#x}: its parameters "
                                        "cannot all be read before it",
                                        first.uprobe_distance)
                          : fmt::format("and {} are probed behind their prologues: their "
                                        "parameters cannot all be read before them (-v lists them)",
                                        counted(moved.size() - 1, "other", "others"));
    output_.status(fmt::format("{} {}", display_name(first), others));
  }

  // Finds points inside of functions that have no frame yet: frame pointers miss the caller there.
  void add_return_addresses(std::vector<CapturePoint>& points) const {
    const CaptureSpec& capture = request_.capture;
    const bool walks = capture.count_stacks || capture.groups.has(BY_STACK) ||
                       capture.stack == StackWalk::frame_pointers;
    if (!walks) return;
    for (CapturePoint& each : points)
      if (each.point->static_probe || each.point->symbol_offset != 0)
        each.has_return_address = binaries_.of(*each.point).has_return_address(*each.point);
  }

  // Sets what to capture of known functions.
  void add_known(std::vector<CapturePoint>& points) {
    const CaptureSpec& capture = request_.capture;
    KnownFunctions known(capture, points.size(), binaries_);
    thread_layout& thread = environment_.layouts.thread;
    const bool is_needed = capture.pair_calls && known.needs_thread_pointer(points);
    thread = is_needed ? find_thread_layout().value_or(thread_layout{}) : thread_layout{};
    known.add_to(points, thread.address != 0);
    const bool sums_sizes =
        capture.groups.measured == "size" || (capture.measured && capture.measured->text == "size");
    if (!sums_sizes) return;
    for (const CapturePoint& each : points)
      if (each.known && has_element_size(*each.known))
        output_.warn_once(fmt::format("{}: 'size' is that of one element, without 'count': to sum "
                                      "bytes, use --measure 'count*size'",
                                      each.known->function));
  }

  static bool is_trigger(const Probe& probe) { return (probe.bounds & ENDS_WAITING) != 0; }

  bool records_entries() const { return request_.capture.on_entry || request_.capture.pair_calls; }

  bool probes_returns() const { return request_.capture.on_return || request_.capture.pair_calls; }
  bool by_uretprobe() const {
    return request_.probes.return_at == ReturnAt::trampoline && probes_returns();
  }
  bool at_exits() const { return probes_returns() && !by_uretprobe(); }

  // Removes open calls that will not return, or that newer ones need the room of. This reads the
  // whole table, so it is done for at most 1 % of the time, and 10 % while calls are lost.
  void forget_calls() {
    const auto now = std::chrono::steady_clock::now();
    const std::uint64_t lost = program_->lost(LOST_CALLS_FULL);
    const bool is_urgent = lost > lost_calls_ || gives_up_calls_;
    if (now < (is_urgent ? next_urgent_look_ : next_look_)) return;
    const auto forgotten = program_->forget_calls([](std::uint32_t process, std::uint32_t thread) {
      const auto pid = static_cast<pid_t>(process);
      return (thread == 0 ? ::kill(pid, 0) : ::tgkill(pid, static_cast<pid_t>(thread), 0)) != 0 &&
             errno == ESRCH;
    });
    lost_calls_ = lost;
    ended_calls_ += forgotten.ended;
    removed_calls_ += forgotten.given_up;
    gives_up_calls_ = forgotten.has_more;
    const auto end = std::chrono::steady_clock::now();
    next_look_ =
        end + std::max<std::chrono::nanoseconds>(std::chrono::seconds(1), 100 * (end - now));
    next_urgent_look_ =
        end + std::max<std::chrono::nanoseconds>(std::chrono::milliseconds(100), 10 * (end - now));
  }

  // Whether they return after all is not known: nothing is left to recognize their returns by.
  std::uint64_t given_up_calls() const {
    return removed_calls_ + (gives_up_calls_ ? program_->open_calls().given_up : 0);
  }

  // Returns whose entry was not seen, without those of calls that were given up, or skipped at
  // their entry. Some of these do not return, so this may hide other missed entries.
  std::uint64_t missed_entries(std::uint64_t given_up) const {
    const std::uint64_t unseen = program_->lost(LOST_NO_ENTRY);
    return unseen - std::min(unseen, program_->lost(SKIPPED_CALLS) + given_up);
  }

  bool take(Bytes record, const Visit& visit) {
    if (const auto pid = process_with_new_stack(record)) {
      if (kernel_aggregates_) kernel_aggregates_->add_process(static_cast<pid_t>(*pid));
      if (groups_) groups_->add_process(static_cast<pid_t>(*pid));
      return true;
    }
    auto event = plan_.decode(record);
    if (!event) {
      ++corrupt_;
      return true;
    }
    if (triggers_) triggers_->mark(*event);
    if (triggers_ && triggers_->has_undecided())
      output_.warn_once("a value that --until compares could not be read: such hits are not "
                        "triggers");
    if (event->is_only_trigger) return visit(*event);
    event->ns_pid = namespace_pids_.find(event->pid, event->time_ns);
    if (spans_)
      spans_->take(record, *event);
    else if (stacks_)
      if (const auto captured = plan_.decode_stack(record))
        add_stack(*event, stacks_->find(*event, *captured));
    if (totals_) totals_->add(*event, stacks_->completeness());
    return !request_.capture.send_events || visit(*event);
  }

  void add_stack(Event& event, const unwind::Stack* stack) const {
    event.has_raw_stack = stack == nullptr;
    if (stack == nullptr) return;
    event.sample = stacks_->sample();
    if (request_.capture.caller) event.caller = find_caller(*stack);
    if (request_.capture.shows_stacks) event.stack = stack;
  }

  // Returns one warning for all clones with changed arguments, or an empty string.
  std::string explain_clone_arguments() const {
    std::vector<const ProbePoint*> clones;
    for (const Probe& probe : probes_)
      if (probe.point.clone_of && has_other_arguments(*probe.point.symbol) &&
          plan_.uses_argument_numbers(probe.number))
        clones.push_back(&probe.point);
    if (clones.empty()) return {};
    const std::string others =
        clones.size() == 1 ? "" : " and " + counted(clones.size() - 1, "other", "others");
    return "the compiler may have removed or reordered arguments of the " +
           std::string(clones.size() == 1 ? "clone " : "clones ") + display_name(*clones.front()) +
           others + ": arg0, arg1, … may not be those of the source";
  }

  std::uint32_t buffer_bytes() const {
    return request_.capture.stack == StackWalk::none ? BuiltinProgram::Settings().buffer_bytes
                                                     : stack_buffer_bytes;
  }

  static bool captures_type(const CaptureSpec& capture, ArgumentType type) {
    return std::ranges::find(capture.filter.terms, type, &ConditionSpec::type) !=
               capture.filter.terms.end() ||
           std::ranges::any_of(capture.arguments, [&](const ArgumentList& list) {
             return std::ranges::find(list.arguments, type, &ArgumentSpec::type) !=
                    list.arguments.end();
           });
  }

  std::vector<BuiltinProgram::Probe> make_program_probes(Mechanism mechanism) const {
    std::vector<BuiltinProgram::Probe> loaded;
    loaded.reserve(probes_.size());
    for (const Probe& probe : probes_) {
      const std::uint32_t bounds = probe.bounds & ~static_cast<std::uint32_t>(ENDS_WAITING);
      const bool hides_entry = bounds != 0 && (!probe.is_recorded || !records_entries());
      loaded.push_back({.plan = plan_.probe_plan(probe.number),
                        .shared_place = mechanism == Mechanism::tracefs ? uprobe_offset(probe.point)
                                                                        : std::nullopt,
                        .bounds = hides_entry ? bounds | IS_ONLY_BOUND : bounds});
    }
    return loaded;
  }

  const AttachRequest& request_;
  BinaryCache& binaries_;
  Exports& exports_;
  Output& output_;
  KernelFeatures features_;
  RecordBuffer buffer_ = RecordBuffer::ring;
  Mechanism mechanism_ = Mechanism::multi;
  bool builds_in_calls_ = false; // the program builds records in the map of open calls
  MappedMemory mapped_memory_;
  CapturePlan plan_;
  std::optional<TypedProbes> placed_; // what place() has read, until load() needs it
  std::optional<TypedProbes> typed_;  // if requested
  std::optional<BuiltinProgram> program_;
  std::optional<BuiltinProgram::Settings> loaded_settings_; // with a graph
  std::optional<KernelAggregates> kernel_aggregates_;       // if requested
  std::optional<GroupCounts> groups_;                       // instead
  std::span<const Probe> probes_;
  ProgramFilter filter_;
  CaptureEnvironment environment_;
  NamespacePids namespace_pids_;
  std::uint64_t ended_calls_ = 0;   // removed, with their process or thread
  std::uint64_t removed_calls_ = 0; // given up
  bool gives_up_calls_ = false;     // there are more in the table
  std::uint64_t lost_calls_ = 0;    // at the last look
  std::chrono::steady_clock::time_point next_look_;
  std::chrono::steady_clock::time_point next_urgent_look_;
  std::uint64_t corrupt_ = 0;
  std::optional<EventTriggers> triggers_;    // if events wait for one
  std::unique_ptr<CallerCode> callers_;      // if the filter compares callers
  std::optional<HitStacks> stacks_;          // if requested
  std::optional<SpanReport> spans_;          // in a run with spans
  TotalsSpec counted_;                       // stacks
  EventValues values_;                       // not used: stacks are counted without values
  std::optional<EventTotals> totals_;        // of them
  std::optional<AskedChild> sleepable_test_; // ends while the run goes on
};

} // namespace

std::unique_ptr<ProbeProgram> make_builtin_source(const AttachRequest& request,
                                                  BinaryCache& binaries, Exports& exports,
                                                  Output& output) {
  return std::make_unique<BuiltinSource>(request, binaries, exports, output);
}

} // namespace uprobectl
