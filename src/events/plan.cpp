// SPDX-License-Identifier: Apache-2.0
#include "events/plan.hpp"

#include "events/argument_lists.hpp"
#include "events/filter_program.hpp"
#include "events/java_method.hpp"
#include "events/plan_layout.hpp"
#include "events/point_values.hpp"
#include "events/readings.hpp"
#include "events/value_plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace uprobectl {

namespace {

// The size of a perf sample has 16 bits (perf_event_open(2)).
constexpr std::size_t max_record_bytes = 60'000;

// Makes the value plans, plans and settings of the points.
class Planner {
public:
  Planner(const CaptureSpec& capture, std::span<const CapturePoint> points, TypeSource* types)
      : capture_(capture), points_(points), lists_(capture.arguments),
        context_{.capture = capture, .points = points.size(), .types = types} {}

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
  std::size_t find_list(const ProbePoint& point) const { return lists_.find(point); }

  // Whether the return address is where a call puts it, so that the caller can be found. Labels and
  // numeric offsets may be inside a function, but not if its return is probed.
  bool is_entry(const ProbePoint& point) const {
    if (point.static_probe || point.symbol_offset != 0) return false;
    if (capture_.on_return || capture_.pair_calls) return true;
    if (!point.symbol || is_cold_part(*point.symbol)) return false;
    return point.size.value_or(0) > 0 || point.kind == SymbolKind::plt || point.java;
  }

  // Whether calls are paired by goroutine. Assembly functions with Go's ABI0 do not have it in a
  // register.
  bool is_by_goroutine(const ProbePoint& point, const CodeAbi& abi) const {
    return (capture_.pair_calls || capture_.nest_calls) && abi.kind == CodeKind::go &&
           !point.symbol.value_or("").ends_with(".abi0");
  }

  // What the point offers.
  Result<PointValues> offer(std::size_t list, const CapturePoint& probed,
                            const ReadingBuilder& builder) const {
    auto offered = PointValues::make(context_, probed, list_at(list), builder);
    if (offered && offered->needs_types()) offered->set_types(context_.types->describe(probed));
    return offered;
  }

  // Sets `values` to those of the point.
  Result<capture_plan> make_plan(const PointValues& offered, const ReadingBuilder& builder,
                                 const CapturePoint& probed, FilterCompiler& filters,
                                 std::shared_ptr<const ValuePlan>& values) {
    auto made = offered.values(problems_);
    if (!made) return fail(std::move(made).error());
    values = std::make_shared<const ValuePlan>(std::move(*made));
    if (context_.types != nullptr) context_.types->planned(*values);
    capture_plan plan{};
    plan.flags = plan_flags(*values, probed);
    if (builder.pointer_size() == 4) plan.flags |= POINTERS_32;
    std::ranges::copy(values->readings(), plan.readings);
    plan.reading_count = static_cast<std::uint32_t>(values->readings().size());
    if (auto added = add_filters(offered, probed, plan, filters); !added)
      return fail(std::move(added).error());
    if (capture_.measured) {
      const auto measured = offered.summed(*capture_.measured);
      if (!measured) return fail(Error(measured.error()).within("--measure"));
      plan.measured = *measured;
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
  builtin_settings make_settings(std::vector<capture_plan>& plans,
                                 const FilterCompiler& filters) const {
    builtin_settings settings{};
    settings.flags = flags();
    settings.user = capture_.user;
    settings.min_latency_ns = static_cast<std::uint64_t>(capture_.min_latency.count());
    if (capture_.limits.one_in > 1) settings.sample = capture_.limits.one_in;
    if (const auto& rate = capture_.limits.max_rate) {
      settings.max_in_window = rate->events;
      settings.window_ms = static_cast<std::uint32_t>(rate->time.count());
    }
    settings.stack_size = capture_.stack == StackWalk::caller ? sizeof(std::uint64_t)
                          : capture_.stack == StackWalk::frame_pointers
                              ? MAX_FRAMES * sizeof(std::uint64_t)
                              : capture_.stack_bytes;
    settings.returns = capture_.return_instances;
    settings.process_name = capture_.process_name;
    settings.group_by = group_features();
    filters.describe(settings);
    if (capture_.by_uretprobe) settings.nesting = capture_.nesting;
    settings.thread = capture_.thread;
    settings.ids = capture_.ids;
    const bool registers = std::ranges::any_of(
        plans, [&](const capture_plan& plan) { return has_registers(plan.flags); });
    lay_out_records(settings, plans, registers);
    return settings;
  }

private:
  unsigned flags() const {
    unsigned flags = capture_.filters;
    // Unwound stacks are counted in user space.
    if (capture_.send_events || capture_.stack != StackWalk::none) flags |= SEND_RECORDS;
    if (capture_.pair_calls) flags |= PAIR_CALLS;
    if (capture_.nest_calls) flags |= NEST_CALLS;
    if (capture_.by_uretprobe) flags |= BY_TRAMPOLINE;
    if (capture_.count_by_process) flags |= COUNT_BY_PROCESS;
    if (capture_.count_stacks) flags |= COUNT_STACKS;
    if (capture_.stack == StackWalk::frame_pointers) flags |= WALK_STACK;
    if (capture_.stack == StackWalk::caller) flags |= WALK_STACK | ONLY_CALLER;
    if (capture_.measure_latency) flags |= MEASURE_LATENCY;
    if (capture_.measured) flags |= MEASURE_VALUE;
    return flags;
  }

  unsigned group_features() const {
    if (capture_.groups.by.empty()) return 0;
    unsigned features = GROUPS;
    for (const GroupValue& each : capture_.groups.by) features |= each.built_in.value_or(GROUPS);
    if (capture_.groups.measures_latency) features |= SUMS_LATENCY;
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
    const bool asks_for_stacks =
        capture_.count_stacks || capture_.groups.has(BY_STACK) || capture_.stack != StackWalk::none;
    if (asks_for_stacks && (is_entry(*probed.point) || probed.has_return_address))
      flags |= AT_FUNCTION_START;
    if (is_by_goroutine(*probed.point, probed.code)) flags |= BY_GOROUTINE;
    if (values.has_six_registers()) flags |= SIX_ARGUMENTS;
    return flags;
  }

  const ArgumentList* list_at(std::size_t number) const {
    return number < capture_.arguments.size() ? &capture_.arguments[number] : nullptr;
  }

  Result<void> add_filters(const PointValues& offered, const CapturePoint& probed,
                           capture_plan& plan, FilterCompiler& filters) const {
    std::vector<PreparedTerm> terms;
    for (const ConditionSpec& each : capture_.filter.terms) {
      auto made = offered.condition(each);
      if (!made) return fail(std::move(made).error());
      if (made->term.subject == COMPARE_CALLER && !is_entry(*probed.point))
        return fail(describe_error(each, Error{ErrorKind::unsupported,
                                               "the return address is known only at the first "
                                               "instruction of a function"}));
      complete_term(*made, plan);
      terms.push_back(std::move(*made));
    }
    auto added = filters.add(terms);
    if (!added) return fail(std::move(added).error());
    std::ranges::copy(*added, plan.filters);
    return {};
  }

  const CaptureSpec& capture_;
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

// Each point has a known call of its own.
std::string own_key(const CapturePoint& probed) {
  return fmt::format("values {} known {} ", fmt::ptr(probed.values.get()),
                     fmt::ptr(probed.known.get()));
}

} // namespace

CapturePhases phases_of(const CaptureSpec& capture) {
  return {.entry = capture.on_entry || capture.pair_calls,
          .exit = capture.on_return || capture.pair_calls,
          .paired = capture.pair_calls};
}

Result<CapturePlan> CapturePlan::make(const CaptureSpec& capture,
                                      std::span<const CapturePoint> points, TypeSource* types) {
  Planner planner(capture, points, types);
  if (auto checked = planner.check(); !checked) return fail(std::move(checked).error());
  auto filters = FilterCompiler::make(capture);
  if (!filters) return fail(std::move(filters).error());
  CapturePlan plan;
  std::map<std::tuple<std::size_t, CodeKind, std::optional<reading_form>, bool, bool, bool, bool,
                      bool, std::string>,
           Probe>
      known;
  std::map<std::string, std::uint32_t> numbers; // of plans, by their bytes
  const auto add = [&](const CapturePoint& probed) -> Result<void> {
    const ProbePoint& point = *probed.point;
    const CodeAbi& code = probed.code;
    const std::size_t list = planner.find_list(point);
    const auto builder = ReadingBuilder::make(capture, probed);
    if (!builder) return fail(builder.error());
    auto offered = planner.offer(list, probed, *builder);
    if (!offered) return fail(std::move(offered).error());
    Probe own;
    Probe* made = &own;
    // What debug information says is different at each point.
    bool is_new = true;
    if (!offered->has_types()) {
      const auto [same, is_first] =
          known.emplace(std::tuple(list, code.kind, code.strings, point.symbol_offset == 0,
                                   planner.is_entry(point), planner.is_by_goroutine(point, code),
                                   point.inlined_into != nullptr, probed.has_return_address,
                                   own_key(probed) + reading_key(builder->location()) +
                                       signature_key(point.java.get())),
                        Probe{});
      made = &same->second;
      is_new = is_first;
    }
    if (is_new) {
      auto planned = planner.make_plan(*offered, *builder, probed, *filters, made->values);
      if (!planned) return fail(std::move(planned).error());
      const auto number = static_cast<std::uint32_t>(plan.plans_.size());
      const auto [equal, is_first] = numbers.emplace(bytes_of(*planned), number);
      if (is_first) plan.plans_.push_back(*planned);
      made->plan = equal->second;
      made->hidden = offered->hidden_names();
    }
    plan.probes_.emplace_back(*made).point = probed.point;
    return {};
  };
  for (const CapturePoint& probed : points) {
    if (!probed.is_recorded) { // the program never looks its plan up
      plan.probes_.push_back(
          {.point = probed.point, .plan = 0, .values = std::make_shared<const ValuePlan>()});
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
  plan.pairs_calls_ = capture.pair_calls;
  plan.shows_registers_ = capture.registers;
  plan.copies_stacks_ = capture.stack == StackWalk::frame_data;
  const auto is_argument = [](std::string_view name) {
    const auto source = parse_source_name(name);
    return source && source->kind == ArgumentSource::Kind::argument;
  };
  plan.compares_arguments_ =
      (capture.measured && is_argument(capture.measured->text)) ||
      (capture.weight && is_argument(capture.weight->text)) ||
      std::ranges::any_of(capture.filter.terms, [&](const ConditionSpec& condition) {
        return is_argument(condition.name());
      });
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
                             .values = values.describe(),
                             .hidden = probes_[probe].hidden};
  const bool has_result =
      std::ranges::find(described.values, "ret", &PointValue::name) != described.values.end();
  // As in the run, which reads the register of a function of many that returns nothing.
  if (has_results_ && !has_result && (!values.returns_nothing() || probes_.size() > 1))
    described.values.push_back({.name = "ret", .type = {}, .at_return = true});
  return described;
}

std::vector<std::string> CapturePlan::describe_problems(std::size_t probe) const {
  std::vector<std::string> problems;
  if (copies_stacks_ && (plan_of(probe).flags & COPY_STACK) == 0)
    problems.emplace_back("stacks of 32-bit code cannot be unwound");
  for (std::string& each : probes_[probe].values->describe_problems())
    problems.push_back(std::move(each));
  return problems;
}

} // namespace uprobectl
