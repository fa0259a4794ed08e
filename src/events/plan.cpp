// SPDX-License-Identifier: Apache-2.0
#include "events/plan.hpp"

#include "events/argument_lists.hpp"
#include "events/filter_program.hpp"
#include "events/java_method.hpp"
#include "events/plan_layout.hpp"
#include "events/point_values.hpp"
#include "events/readings.hpp"
#include "events/span_conditions.hpp"
#include "events/value_plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace uprobectl::events {

namespace {

// The size of a perf sample has 16 bits (perf_event_open(2)).
constexpr std::size_t max_record_bytes = 60'000;

// The key of a role at a point.
struct PlannedKey {
  std::optional<std::size_t> reading = {}; // of the plan; nullopt: the thread
  values::ValueType type = {};
  bool is_result = false; // in a register at the return
};

// Makes the value plans, plans and settings of the points.
class Planner {
public:
  Planner(const CaptureSpec& capture, const CaptureEnvironment& environment,
          std::span<const CapturePoint> points, TypeSource* types)
      : capture_(capture), environment_(environment), points_(points), lists_(capture.arguments),
        context_{.capture = capture,
                 .layouts = environment.layouts,
                 .points = points.size(),
                 .types = types} {}

  Result<void> check() const {
    std::set<std::size_t> used;
    for (const CapturePoint& each : points_) used.insert(lists_.find(*each.point));
    std::size_t general = 0;
    for (std::size_t i = 0; i < capture_.arguments.size(); ++i) {
      const ArgumentList& list = capture_.arguments[i];
      if (!list.function && ++general > 1)
        return fail(ErrorKind::usage, "--args without a function given twice");
      if (!list.function)
        if (auto checked = check_numbers(list); !checked) return checked;
      if (used.contains(i) || !list.function) continue;
      if (std::ranges::none_of(points_,
                               [&](const auto& each) { return applies_to(list, *each.point); }))
        return fail(Error{ErrorKind::usage, "--args: " + in_single_quotes(*list.function) +
                                                " is not a probed function"}
                        .hint("write it as FUNCTION or as it is shown in events"));
    }
    return {};
  }

  // Static probes may have different numbers of arguments. At least one must have each number.
  Result<void> check_numbers(const ArgumentList& list) const {
    std::size_t most = 0;
    for (const CapturePoint& each : points_) {
      if (!each.point->static_probe) return {};
      most = std::max(most, each.point->static_probe->arguments.size());
    }
    for (const ArgumentSpec& spec : list.arguments)
      if (spec.by_number && spec.source.number >= most)
        return fail(ErrorKind::usage, "--args: no static probe has an " + spec.name);
    return {};
  }

  // Returns the number of argument lists if there is none for the point.
  std::size_t find_list(const resolve::ProbePoint& point) const { return lists_.find(point); }

  // Whether the return address is where a call puts it, so that the caller can be found. Labels and
  // numeric offsets may be inside a function, but not if its return is probed.
  bool is_entry(const resolve::ProbePoint& point) const {
    if (point.static_probe || point.symbol_offset != 0) return false;
    if (capture_.on_return || capture_.pair_calls) return true;
    if (!point.symbol || symbols::is_cold_part(*point.symbol)) return false;
    return point.size.value_or(0) > 0 || point.kind == symbols::SymbolKind::plt || point.java;
  }

  // Whether calls are paired by goroutine. Assembly functions with Go's ABI0 do not have it in a
  // register.
  bool is_by_goroutine(const resolve::ProbePoint& point, const CodeAbi& abi) const {
    return (capture_.pair_calls || capture_.nest_calls) && abi.kind == CodeKind::go &&
           !point.symbol.value_or("").ends_with(".abi0");
  }

  // Returns the values that the point offers.
  Result<PointValues> offer(std::size_t list, const CapturePoint& probed,
                            const ReadingBuilder& builder) const {
    auto offered = PointValues::make(context_, probed, list_at(list), builder);
    if (offered && offered->needs_types()) offered->set_types(context_.types->describe(probed));
    return offered;
  }

  // Sets `values` to those of the point.
  Result<point_plan> make_plan(const PointValues& offered, const ReadingBuilder& builder,
                               const CapturePoint& probed, FilterCompiler& filters,
                               std::shared_ptr<const ValuePlan>& values,
                               std::vector<PlannedKey>& keys) {
    auto made = offered.values(problems_);
    if (!made) return fail(std::move(made).error());
    auto planned_keys = plan_keys(offered, probed, *made);
    if (!planned_keys) return fail(std::move(planned_keys).error());
    keys = std::move(*planned_keys);
    values = std::make_shared<const ValuePlan>(std::move(*made));
    if (context_.types != nullptr) context_.types->planned(*values);
    point_plan plan{};
    plan.flags = plan_flags(*values, probed);
    if (capture_.tracks_waits && (plan.flags & BY_GOROUTINE) != 0)
      return fail(Error{ErrorKind::unsupported,
                        "CPU and waiting times are those of threads, and goroutines move between "
                        "threads"}
                      .hint(capture_.tracks_causes
                                ? "leave out --off-cpu, slept, blocked and preempted"
                                : "leave out --cpu, on_cpu and waiting"));
    if (builder.pointer_size() == 4) plan.flags |= POINTERS_32;
    std::ranges::copy(values->readings(), plan.readings);
    plan.reading_count = static_cast<std::uint32_t>(values->readings().size());
    if (auto added = add_roles(probed.roles, keys, plan); !added)
      return fail(std::move(added).error());
    for (const bool at_end : {false, true}) {
      if (probed.roles.empty() ? at_end : !has_role(probed, at_end)) continue;
      if (auto added = add_filters(at_end, offered, *values, probed, plan, filters); !added)
        return fail(std::move(added).error());
    }
    if (capture_.measured && capture_.spans.empty()) {
      const auto measured = offered.summed(*capture_.measured);
      if (!measured) return fail(Error(measured.error()).within("--measure"));
      plan.measured = measured->value;
      if (measured->factor) {
        plan.measured.factor_from = 1;
        plan.factor = *measured->factor;
      }
    }
    complete_readings(plan);
    const std::size_t end = record_bytes(plan, has_registers(plan.flags));
    if (end > max_record_bytes)
      return fail(Error{ErrorKind::usage, "the arguments take up to " + std::to_string(end) +
                                              " bytes per event, the maximum is " +
                                              std::to_string(max_record_bytes)}
                      .hint("use smaller buffers or a smaller --max-string"));
    return plan;
  }

  Result<void> check_names() const { return problems_.check(); }

  // Returns the settings of the run, and assigns the offsets in the plans.
  builtin_settings make_settings(std::vector<point_plan>& plans,
                                 const FilterCompiler& filters) const {
    builtin_settings settings{};
    settings.flags = flags();
    settings.user = environment_.user;
    settings.min_latency_ns = static_cast<std::uint64_t>(capture_.min_latency.count());
    if (capture_.max_duration)
      settings.max_duration_ns = static_cast<std::uint64_t>(capture_.max_duration->count());
    if (capture_.limits.one_in > 1) settings.sample = capture_.limits.one_in;
    if (const auto& rate = capture_.limits.max_rate) {
      settings.max_in_window = rate->events;
      settings.window_ms = static_cast<std::uint32_t>(rate->time.count());
    }
    settings.stack_size = capture_.stack == StackWalk::caller ? sizeof(std::uint64_t)
                          : capture_.stack == StackWalk::frame_pointers
                              ? MAX_FRAMES * sizeof(std::uint64_t)
                              : capture_.stack_bytes;
    settings.returns = environment_.layouts.return_instances;
    settings.process_name = environment_.layouts.process_name;
    settings.group_by = group_features();
    settings.measured_time =
        capture_.measured_time.value_or(capture_.groups.measured_time.value_or(TIME_LATENCY));
    filters.describe(settings);
    if (environment_.by_uretprobe) settings.nesting = environment_.layouts.nesting;
    settings.thread = environment_.layouts.thread;
    settings.ids = environment_.ids;
    settings.task_state = environment_.layouts.task_state;
    const bool registers = std::ranges::any_of(
        plans, [&](const point_plan& plan) { return has_registers(plan.flags); });
    const KeptWaits waits = capture_.stack == StackWalk::longest_wait ? KeptWaits::longest
                            : capture_.stack == StackWalk::each_wait  ? KeptWaits::each
                                                                      : KeptWaits::none;
    lay_out_records(settings, plans, registers, waits);
    return settings;
  }

private:
  // Returns argN of "*argN": what a function has written there is known at its return.
  static std::optional<ValuePath> written_through(const ValuePath& path) {
    const auto source = parse_source_name(path.variable);
    const bool is_argument = source && source->kind == ArgumentSource::Kind::argument;
    if (!is_argument || path.steps.size() != 1 ||
        path.steps[0].kind != ValuePath::Step::Kind::dereference)
      return std::nullopt;
    return parse_value_path(path.variable).value();
  }

  // Adds the readings of the keys of the point's roles. Returns a key for each role; that of a
  // thread has no reading.
  Result<std::vector<PlannedKey>> plan_keys(const PointValues& offered, const CapturePoint& probed,
                                            ValuePlan& values) const {
    std::vector<PlannedKey> keys;
    for (const SpanRole& role : probed.roles) {
      PlannedKey& key = keys.emplace_back();
      if (!role.key) continue;
      const auto pointer = role.at_return ? written_through(*role.key) : std::nullopt;
      auto value = offered.key(pointer.value_or(*role.key));
      if (!value) return fail(std::move(value).error().within("--span"));
      if (pointer) {
        const auto address = values.add_key(value->value);
        value->value = based_on(address.value_or(0), PHASE_RETURN);
        value->type = {.is_address = true};
        if (address && add_load(value->value, 0, word_size))
          key.reading = values.add_key(value->value);
      } else {
        key.reading = values.add_key(value->value); // what it is based on is a reading, too
      }
      if (!key.reading)
        return fail(ErrorKind::usage, fmt::format("--span: more than {} values", MAX_READINGS));
      key.type = std::move(value->type);
      key.is_result = value->value.base_from == 0 && value->value.phase == PHASE_RETURN;
    }
    return keys;
  }

  Result<void> add_roles(std::span<const SpanRole> roles, std::span<const PlannedKey> keys,
                         point_plan& plan) const {
    if (roles.size() > MAX_SPAN_ROLES)
      return fail(ErrorKind::usage,
                  fmt::format("--span: it begins and ends more than {} spans", MAX_SPAN_ROLES));
    for (const bool ends : {true, false})
      for (std::size_t i = 0; i < roles.size(); ++i) {
        if (roles[i].ends != ends) continue;
        const PlannedKey& key = keys[i];
        span_role& made = plan.roles[plan.role_count++];
        made.span = static_cast<record_u16>(roles[i].span);
        made.phase = roles[i].at_return ? PHASE_RETURN : PHASE_ENTRY;
        if (ends) made.flags |= ENDS_SPAN;
        if (roles[i].at_return) plan.pairs_calls = 1;
        if (roles[i].only_if_zero) made.flags |= ONLY_IF_ZERO;
        if (roles[i].of_thread) made.flags |= KEY_OF_THREAD;
        if (!key.reading) continue;
        made.key = static_cast<record_u8>(*key.reading + 1);
        if (key.type.is_address || !key.type.is_known()) made.flags |= NO_NULL_KEY;
        if (key.type.is_signed) made.flags |= NO_NEGATIVE_KEY;
        if (key.is_result) made.flags |= RETURNED_KEY;
      }
    return {};
  }

  unsigned flags() const {
    unsigned flags = environment_.filters;
    const bool has_spans = !capture_.spans.empty();
    // Unwound stacks are counted in user space.
    const bool counts_spans = capture_.counts_span_values() && !capture_.lists_open_spans;
    if (capture_.send_events || counts_spans || (capture_.stack != StackWalk::none && !has_spans))
      flags |= SEND_RECORDS;
    if (capture_.pair_calls) flags |= PAIR_CALLS;
    if (capture_.nest_calls) flags |= NEST_CALLS;
    if (capture_.stops_process) flags |= STOPS_PROCESS;
    if (has_spans) flags |= SPANS;
    if (has_spans && !capture_.end_conditions.empty()) flags |= SPAN_CONDITIONS;
    if (environment_.by_uretprobe) flags |= BY_TRAMPOLINE;
    if (capture_.count_by_process) flags |= COUNT_BY_PROCESS;
    if (capture_.count_stacks) flags |= COUNT_STACKS;
    if (capture_.stack == StackWalk::frame_pointers) flags |= has_spans ? SPAN_STACKS : WALK_STACK;
    if (capture_.stack == StackWalk::caller) flags |= WALK_STACK | ONLY_CALLER;
    if (capture_.measured_time && !capture_.counts_span_values()) flags |= MEASURE_LATENCY;
    if (capture_.tracks_waits) flags |= TRACKS_WAITS;
    if (capture_.tracks_causes) flags |= TRACKS_CAUSES;
    if (capture_.measured && !has_spans) flags |= MEASURE_VALUE;
    return flags;
  }

  unsigned group_features() const {
    if (capture_.groups.by.empty() || !capture_.spans.empty()) return 0;
    unsigned features = GROUPS;
    for (const GroupValue& each : capture_.groups.by) features |= each.built_in.value_or(GROUPS);
    if (capture_.groups.measured_time) features |= SUMS_LATENCY;
    return features;
  }

  // Registers are read with a copied stack, to unwind it.
  bool has_registers(unsigned plan_flags) const {
    return capture_.registers || (plan_flags & COPY_STACK) != 0;
  }

  // 32-bit code has other registers, and the unwinder does not support it.
  unsigned plan_flags(const ValuePlan& values, const CapturePoint& probed) const {
    unsigned flags = 0;
    if (capture_.stack == StackWalk::frame_data && probed.code.kind != CodeKind::native_32)
      flags |= COPY_STACK;
    if (capture_.asks_for_stacks() && !probed.walk_finds_caller &&
        probed.has_return_address.value_or(is_entry(*probed.point)))
      flags |= AT_FUNCTION_START;
    if (is_by_goroutine(*probed.point, probed.code)) flags |= BY_GOROUTINE;
    if (values.has_six_registers()) flags |= SIX_ARGUMENTS;
    return flags;
  }

  const ArgumentList* list_at(std::size_t number) const {
    return number < capture_.arguments.size() ? &capture_.arguments[number] : nullptr;
  }

  // Compiles expressions for the values of a point. `at_end`: they are about the end of spans.
  Result<std::array<record_u32, 2>>
  compile_filters(std::span<const FilterExpression> expressions, bool at_end,
                  const PointValues& offered, const ValuePlan& values, const CapturePoint& probed,
                  const point_plan& plan, FilterCompiler& filters) const {
    const std::vector<ConditionSpec>& all = capture_.filter.terms;
    const std::vector<bool> used = find_used_terms(expressions, all.size());
    std::vector<PreparedTerm> terms(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!used[i]) continue;
      const ConditionSpec spec = at_end ? condition_at_end(all[i]).value_or(all[i]) : all[i];
      auto made = offered.condition(spec, values);
      if (!made) return fail(std::move(made).error());
      if (made->term.subject == COMPARE_CALLER &&
          !(is_entry(*probed.point) && probed.has_return_address.value_or(true)))
        return fail(describe_error(spec, Error{ErrorKind::unsupported,
                                               "the return address is known only at the first "
                                               "instruction of a function"}));
      complete_term(*made, plan);
      terms[i] = std::move(*made);
    }
    return filters.add(expressions, terms);
  }

  static bool has_role(const CapturePoint& probed, bool ends, bool at_entry = false) {
    return std::ranges::any_of(probed.roles, [&](const SpanRole& role) {
      return role.ends == ends && !(at_entry && role.at_return);
    });
  }

  // Compiles the conditions of a point; `at_end`: those about the end of spans.
  Result<void> add_filters(bool at_end, const PointValues& offered, const ValuePlan& values,
                           const CapturePoint& probed, point_plan& plan,
                           FilterCompiler& filters) const {
    const auto& expressions = at_end ? capture_.end_conditions : capture_.filter.expressions;
    const auto added = compile_filters(expressions, at_end, offered, values, probed, plan, filters);
    if (!added) return fail(added.error());
    std::ranges::copy(*added, at_end ? plan.end_filters : plan.filters);
    if (!has_role(probed, at_end, true) || (*added)[PHASE_RETURN] == 0) return {};
    return fail(Error{ErrorKind::usage,
                      fmt::format("--if: a span {} at the entry, where the result is not known",
                                  at_end ? "ends" : "begins")}
                    .hint(at_end ? "write TO%return, to end it where the function returns"
                                 : "write FROM%return, to begin it where the function returns"));
  }

  const CaptureSpec& capture_;
  const CaptureEnvironment& environment_;
  std::span<const CapturePoint> points_;
  ArgumentListIndex lists_;
  ValueContext context_;
  NameProblems problems_;
};

// Structures of bpf/record.h have no padding.
template <typename Structure>
std::string bytes_of(const Structure& structure) {
  return {reinterpret_cast<const char*>(&structure), sizeof(structure)};
}

// Returns what keeps points apart: values, known calls and roles of their own.
std::string own_key(const CapturePoint& probed) {
  return fmt::format("values {} known {} roles {} ", fmt::ptr(probed.values.get()),
                     fmt::ptr(probed.known.get()), fmt::ptr(probed.roles.data()));
}

} // namespace

bool CaptureSpec::asks_for_errno() const {
  return groups.has(BY_ERRNO) || std::ranges::any_of(filter.terms, [](const ConditionSpec& each) {
           return each.built_in == COMPARE_ERRNO;
         });
}

CapturePhases phases_of(const CaptureSpec& capture, const CapturePoint& probed) {
  if (probed.roles.empty()) return phases_of(capture);
  const bool at_return = std::ranges::any_of(probed.roles, &SpanRole::at_return);
  return {.entry = true, .exit = at_return, .paired = at_return};
}

CapturePhases phases_of(const CaptureSpec& capture) {
  return {.entry = capture.on_entry || capture.pair_calls,
          .exit = capture.on_return || capture.pair_calls,
          .paired = capture.pair_calls};
}

Result<CapturePlan> CapturePlan::make(const CaptureSpec& capture,
                                      std::span<const CapturePoint> points, TypeSource* types,
                                      const CaptureEnvironment& environment) {
  Planner planner(capture, environment, points, types);
  if (auto checked = planner.check(); !checked) return fail(std::move(checked).error());
  auto filters = FilterCompiler::make(capture);
  if (!filters) return fail(std::move(filters).error());
  CapturePlan plan;
  std::map<std::tuple<std::size_t, CodeKind, std::optional<reading_form>, bool, bool, bool, bool,
                      std::optional<bool>, bool, std::string>,
           Probe>
      known;
  std::map<std::string, std::uint32_t> numbers; // of plans, by their bytes
  const auto add = [&](const CapturePoint& probed) -> Result<void> {
    const resolve::ProbePoint& point = *probed.point;
    const CodeAbi& code = probed.code;
    const std::size_t list = planner.find_list(point);
    const auto builder = ReadingBuilder::make(capture, environment.by_uretprobe, probed);
    if (!builder) return fail(builder.error());
    auto offered = planner.offer(list, probed, *builder);
    if (!offered) return fail(std::move(offered).error());
    Probe own;
    Probe* made = &own;
    // Points with debug information have a plan each, because the information differs from point to
    // point.
    bool is_new = true;
    if (!offered->has_types()) {
      const auto [same, is_first] = known.emplace(
          std::tuple(
              list, code.kind, code.strings, point.symbol_offset == 0, planner.is_entry(point),
              planner.is_by_goroutine(point, code), point.inlined_into != nullptr,
              probed.has_return_address, probed.walk_finds_caller,
              own_key(probed) + reading_key(builder->location()) + signature_key(point.java.get())),
          Probe{});
      made = &same->second;
      is_new = is_first;
    }
    if (is_new) {
      std::vector<PlannedKey> keys;
      auto planned = planner.make_plan(*offered, *builder, probed, *filters, made->values, keys);
      if (!planned) return fail(std::move(planned).error());
      for (std::size_t i = 0; i < keys.size(); ++i)
        if (const PlannedKey& key = keys[i]; key.reading)
          made->keys.push_back({.span = probed.roles[i].span,
                                .ends = probed.roles[i].ends,
                                .is_address = key.type.is_address || !key.type.is_known(),
                                .is_signed = key.type.is_signed});
      const auto number = static_cast<std::uint32_t>(plan.plans_.size());
      const auto [equal, is_first] = numbers.emplace(bytes_of(*planned), number);
      if (is_first) plan.plans_.push_back(*planned);
      made->plan = equal->second;
      made->hidden = offered->hidden_names();
    }
    Probe& added = plan.probes_.emplace_back(*made);
    added.point = probed.point;
    for (const SpanRole& role : probed.roles)
      (role.ends ? added.ends_spans : added.begins_spans) = true;
    return {};
  };
  std::optional<std::uint32_t> trigger_plan;
  for (const CapturePoint& probed : points) {
    if (probed.is_trigger && !trigger_plan) {
      trigger_plan = static_cast<std::uint32_t>(plan.plans_.size());
      plan.plans_.emplace_back().flags = ONLY_UNTIL;
    }
    if (!probed.is_recorded) { // the program never looks the plan up, except that of triggers
      plan.probes_.push_back({.point = probed.point,
                              .plan = probed.is_trigger ? *trigger_plan : 0,
                              .values = std::make_shared<const ValuePlan>()});
      continue;
    }
    if (auto added = add(probed); !added) {
      Error error = std::move(added).error();
      error.message.insert(0, display_name(*probed.point) + ": ");
      return fail(std::move(error));
    }
  }
  if (auto checked = planner.check_names(); !checked) return fail(std::move(checked).error());
  plan.has_results_ = phases_of(capture).exit;
  plan.spans_ = capture.spans;
  plan.pairs_calls_ = capture.pair_calls;
  plan.shows_registers_ = capture.registers;
  plan.unwinds_stacks_ = copies_stacks(capture.stack);
  const auto is_argument = [](std::string_view name) {
    const auto source = parse_source_name(name);
    return source && source->kind == ArgumentSource::Kind::argument;
  };
  const auto sums_argument = [&](const std::optional<SummedValue>& summed) {
    return summed && std::ranges::any_of(summed->operands, is_argument, &ValuePath::text);
  };
  plan.compares_arguments_ =
      sums_argument(capture.measured) || sums_argument(capture.weight) ||
      std::ranges::any_of(capture.filter.terms, [&](const ConditionSpec& condition) {
        return is_argument(condition.name());
      });
  const auto waits_for_return = [](const point_plan& each) {
    return each.filters[PHASE_RETURN] != 0;
  };
  if (capture.stack == StackWalk::each_wait && std::ranges::any_of(plan.plans_, waits_for_return))
    return fail(
        Error{ErrorKind::usage, "with --off-cpu=all a condition cannot compare what is known "
                                "when the call returns: its waits are written before"}
            .hint("compare values of the entry, or save the run: report --if selects calls, "
                  "without their waits")
            .hint("--off-cpu has the longest wait of the calls that it selects"));
  if (plan.plans_.empty()) plan.plans_.emplace_back();
  plan.settings_ = planner.make_settings(plan.plans_, *filters);
  plan.filters_ = filters->tables();
  if (plan.settings_.group_by != 0 && plan.settings_.kept_size > MAX_GROUP_BYTES)
    return fail(Error{ErrorKind::usage,
                      fmt::format("the values to count by take up to {} bytes, the maximum is {}",
                                  plan.settings_.kept_size, MAX_GROUP_BYTES)}
                    .hint("use fewer values, smaller buffers or a smaller --max-string"));
  return plan;
}

bool CapturePlan::uses_argument_numbers(std::size_t probe) const {
  return compares_arguments_ || probes_[probe].values->uses_argument_numbers();
}

PointDescription CapturePlan::describe(std::size_t probe) const {
  const ValuePlan& values = *probes_[probe].values;
  PointDescription described{.pairs_calls = pairs_calls_,
                             .has_registers = shows_registers_,
                             .knows_failure = values.knows_failure(),
                             .knows_errno = values.errno_reading() != nullptr,
                             .knows_waits = (settings_.flags & TRACKS_WAITS) != 0,
                             .knows_causes = (settings_.flags & TRACKS_CAUSES) != 0,
                             .begins_spans = probes_[probe].begins_spans,
                             .ends_spans = probes_[probe].ends_spans,
                             .returns_nothing = values.returns_nothing(),
                             .values = values.describe(),
                             .hidden = probes_[probe].hidden};
  const bool has_result =
      std::ranges::find(described.values, result_name, &values::DescribedValue::name) !=
      described.values.end();
  // With several functions, the run reads the result register also for those that return nothing.
  if (has_results_ && !has_result && (!values.returns_nothing() || probes_.size() > 1))
    described.values.push_back({.name = std::string(result_name), .type = {}, .at_return = true});
  return described;
}

std::vector<std::string> CapturePlan::describe_problems(std::size_t probe) const {
  std::vector<std::string> problems;
  if (unwinds_stacks_ && (plan_of(probe).flags & POINTERS_32) != 0)
    problems.emplace_back("stacks of 32-bit code cannot be unwound");
  for (std::string& each : probes_[probe].values->describe_problems())
    problems.push_back(std::move(each));
  return problems;
}

} // namespace uprobectl::events
