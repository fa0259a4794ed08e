// SPDX-License-Identifier: Apache-2.0
#include "events/plan.hpp"

#include "events/argument_lists.hpp"
#include "events/filter_program.hpp"
#include "events/group_selection.hpp"
#include "events/java_method.hpp"
#include "events/plan_layout.hpp"
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

// Returns arg0 to arg5, for code with another calling convention than the program assumes.
std::vector<ArgumentSpec> six_integer_arguments() {
  std::vector<ArgumentSpec> six;
  six.reserve(RECORD_VALUES);
  for (std::uint32_t i = 0; i < RECORD_VALUES; ++i)
    six.push_back({.name = "arg" + std::to_string(i),
                   .type = ArgumentType::x64,
                   .source = {.number = i},
                   .length = {},
                   .length_from = {}});
  return six;
}

// Returns why an argument of a static probe cannot be read; empty if it can.
std::string argument_problem(const ArgumentSpec& spec, const StaticProbe* probe) {
  if (probe == nullptr || spec.source.kind != ArgumentSource::Kind::argument) return {};
  const StaticArgument& argument = probe->arguments[spec.source.number];
  const std::string problem = unreadable_reason(argument);
  return problem.empty() ? problem : argument.raw + ": " + problem;
}

// Returns why the argument with the length of a buffer cannot be read; empty if it can.
std::string length_problem(const ArgumentSpec& spec, std::span<const ArgumentSpec> list) {
  if (!spec.length_from) return {};
  const auto length = std::ranges::find(list, *spec.length_from, &ArgumentSpec::name);
  if (length == list.end())
    return "its length " + *spec.length_from + " is not an argument of this probe";
  if (!length->problem.empty() || is_floating(length->type))
    return "its length " + *spec.length_from + " cannot be read";
  return {};
}

std::vector<ArgumentSpec> with_problems(std::vector<ArgumentSpec> specs, const StaticProbe* probe) {
  for (ArgumentSpec& each : specs) each.problem = argument_problem(each, probe);
  for (ArgumentSpec& each : specs)
    if (each.problem.empty()) each.problem = length_problem(each, specs);
  return specs;
}

// The arguments and the return value of a Java method, as many as a record can hold.
std::vector<ArgumentSpec> java_values(const JavaMethod& method, CodeKind kind, bool arguments,
                                      bool on_return) {
  std::vector<JavaArgument> known;
  if (arguments) known = java_arguments(method, kind);
  const auto returned = on_return ? java_return(method, kind) : std::nullopt;
  const std::size_t room = MAX_READINGS - (returned && returned->spec.problem.empty() ? 1 : 0);
  if (returned) known.push_back(*returned);
  std::vector<ArgumentSpec> values;
  std::size_t read = 0;
  for (JavaArgument& each : known) {
    const bool is_return = each.spec.source.kind == ArgumentSource::Kind::returned;
    if (each.spec.problem.empty() && !is_return && ++read > room)
      each.spec.problem = "a record can hold " + std::to_string(MAX_READINGS) + " values";
    values.push_back(std::move(each.spec));
  }
  return values;
}

// In a list for a Java method `this` is not a parameter, so it does not count as a position.
std::vector<ArgumentSpec> with_this(std::vector<ArgumentSpec> specs) {
  std::uint32_t before = 0;
  for (ArgumentSpec& spec : specs) {
    if (!spec.by_position) continue;
    if (spec.name == "this") {
      spec.source.number = this_argument;
      ++before;
    } else {
      spec.source.number -= before;
    }
  }
  return specs;
}

// Makes the value plans, plans and settings of the points.
class Planner {
public:
  Planner(const CaptureSpec& capture, std::span<const CapturePoint> points)
      : capture_(capture), points_(points), lists_(capture.arguments) {}

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
      if (used.contains(i) || list.is_implied || !list.function) continue;
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

  // What is declared of the values at a point.
  Result<DeclaredValues> declare(std::size_t list, const CapturePoint& probed,
                                 bool at_start) const {
    const ProbePoint& point = *probed.point;
    const CodeAbi& abi = probed.code;
    const StaticProbe* const probe = point.static_probe.get();
    const ArgumentList* asked = list_at(list);
    if (probed.values != nullptr && (asked == nullptr || !asked->is_mixed()))
      return DeclaredValues{};
    if (asked != nullptr && asked->is_implied &&
        (probe != nullptr || point.java || probed.known != nullptr))
      asked = nullptr;
    const bool has_paths = asked != nullptr && !asked->paths.empty() && probed.values == nullptr;
    if (has_paths && asked->arguments.empty() && !capture_.captures_values())
      return DeclaredValues{};
    if (has_paths &&
        (asked->arguments.empty() || (asked->is_mixed() && capture_.captures_values())))
      return fail(ErrorKind::not_found, fmt::format("'{}' needs debug information of the function",
                                                    asked->paths.front().text));
    if (probe != nullptr) {
      auto specs = static_probe_arguments(*probe, asked);
      if (!specs) return fail(std::move(specs).error());
      return DeclaredValues{.arguments = with_problems(std::move(*specs), probe)};
    }
    if (asked != nullptr) {
      auto specs = point.java ? with_this(asked->arguments) : asked->arguments;
      return DeclaredValues{.arguments = with_problems(std::move(specs), nullptr)};
    }
    if (probed.known != nullptr)
      return DeclaredValues{.arguments = with_problems(probed.known->arguments, nullptr),
                            .known = probed.known};
    // The registers of an inlined call do not hold arguments.
    if (point.inlined_into) return DeclaredValues{};
    const bool at_entry = capture_.on_entry || capture_.pair_calls;
    if (point.java && at_start)
      return DeclaredValues{.arguments = java_values(*point.java, abi.kind, at_entry,
                                                     capture_.on_return || capture_.pair_calls)};
    const bool elsewhere = abi.kind != CodeKind::native;
    if (elsewhere && at_entry) return DeclaredValues{.arguments = six_integer_arguments()};
    return DeclaredValues{.arguments = {}, .six_registers = true};
  }

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

  // Sets `values` to the typed values of the point, or to the declared ones.
  Result<capture_plan> make_plan(std::size_t list, const DeclaredValues& declared,
                                 const CapturePoint& probed, bool at_start,
                                 const StaticProbeLocation& location, FilterCompiler& filters,
                                 std::shared_ptr<const ValuePlan>& values) const {
    const CodeAbi& abi = probed.code;
    const auto convention = calling_convention(abi.kind);
    if (!convention)
      return fail(ErrorKind::unsupported, "the kernel of this machine cannot probe 32-bit code");
    const ReadingBuilder builder(capture_, *convention, abi, at_start,
                                 probed.point->inlined_into != nullptr, location,
                                 probed.point->java.get());
    if (auto checked = check_prepared(probed); !checked) return fail(std::move(checked).error());
    auto made = make_values(list, declared, probed, builder);
    if (!made) return fail(std::move(made).error());
    values = std::move(*made);
    capture_plan plan{};
    plan.flags = plan_flags(*values, probed);
    if (convention->pointer_size == 4) plan.flags |= POINTERS_32;
    std::ranges::copy(values->readings(), plan.readings);
    plan.reading_count = static_cast<std::uint32_t>(values->readings().size());
    auto added = add_filters(builder, declared.arguments, probed, plan, filters);
    if (!added) return fail(std::move(added).error());
    if (added = add_measured(builder, declared.arguments, probed, plan); !added)
      return fail(std::move(added).error());
    complete_readings(plan);
    const std::size_t end = record_bytes(plan, has_registers(plan.flags));
    if (end > max_record_bytes)
      return fail(Error{ErrorKind::usage, "the arguments take up to " + std::to_string(end) +
                                              " bytes per event, the maximum is " +
                                              std::to_string(max_record_bytes)}
                      .hint("use smaller buffers or a smaller --max-string"));
    return plan;
  }

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
    for (const GroupValue& each : capture_.groups.by) features |= each.fact.value_or(GROUPS);
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

  // Checks what the caller has prepared.
  Result<void> check_prepared(const CapturePoint& probed) const {
    const CapturePhases phases = phases_of(capture_);
    Result<void> checked;
    if (probed.values != nullptr) checked = check_readings(probed.values->readings(), phases);
    for (const std::optional<PreparedTerm>& each : probed.conditions)
      if (checked && each) checked = check_condition(*each, phases);
    if (checked && probed.measured) checked = check_measured(*probed.measured, phases);
    return checked;
  }

  Result<std::shared_ptr<const ValuePlan>> make_values(std::size_t list,
                                                       const DeclaredValues& declared,
                                                       const CapturePoint& probed,
                                                       const ReadingBuilder& builder) const {
    if (probed.values != nullptr && declared.arguments.empty()) return probed.values;
    // Conditions use the names and types of what a known function takes, and nothing else is read.
    if (declared.known && !capture_.captures_values()) return std::make_shared<const ValuePlan>();
    const ArgumentList* const asked = list_at(list);
    ValuePlan made = probed.values != nullptr ? *probed.values : ValuePlan();
    if (auto added = made.add(declared, builder); !added) return fail(std::move(added).error());
    if (asked != nullptr && asked->is_mixed()) made.set_order(asked->order);
    if (!capture_.groups.by.empty()) made.set_group_parts(capture_.groups);
    return std::make_shared<const ValuePlan>(std::move(made));
  }

  Result<void> add_filters(const ReadingBuilder& builder, std::span<const ArgumentSpec> declared,
                           const CapturePoint& probed, capture_plan& plan,
                           FilterCompiler& filters) const {
    std::vector<PreparedTerm> terms;
    for (std::size_t i = 0; i < capture_.filter.terms.size(); ++i) {
      if (i < probed.conditions.size() && probed.conditions[i]) {
        terms.push_back(*probed.conditions[i]);
      } else {
        auto made = builder.build_condition(capture_.filter.terms[i], declared);
        if (!made) return fail(std::move(made).error());
        terms.push_back(std::move(*made));
      }
      if (terms.back().term.subject == COMPARE_CALLER && !is_entry(*probed.point))
        return fail(describe_error(capture_.filter.terms[i],
                                   Error{ErrorKind::unsupported,
                                         "the return address is known only at the first "
                                         "instruction of a function"}));
      complete_term(terms.back(), plan);
    }
    auto added = filters.add(terms);
    if (!added) return fail(std::move(added).error());
    std::ranges::copy(*added, plan.filters);
    return {};
  }

  Result<void> add_measured(const ReadingBuilder& builder, std::span<const ArgumentSpec> declared,
                            const CapturePoint& probed, capture_plan& plan) const {
    if (!capture_.measured) return {};
    if (probed.measured) {
      plan.measured = *probed.measured;
      return {};
    }
    auto measured = builder.build_measured(*capture_.measured, declared);
    if (!measured) return fail(std::move(measured).error());
    plan.measured = *measured;
    return {};
  }

  const CaptureSpec& capture_;
  std::span<const CapturePoint> points_;
  ArgumentListIndex lists_;
};

// Structures of bpf/record.h have no padding.
template <typename Structure>
std::string bytes_of(const Structure& structure) {
  return {reinterpret_cast<const char*>(&structure), sizeof(structure)};
}

// Returns a key that is equal for points with the same values and conditions of their own.
std::string prepared_key(const CapturePoint& probed) {
  std::string key;
  if (probed.values != nullptr) key += fmt::format("values {} ", fmt::ptr(probed.values.get()));
  if (probed.measured) key += "measured" + bytes_of(*probed.measured);
  for (const auto& each : probed.conditions) {
    key += each ? "condition" + bytes_of(each->term) : "none";
    if (!each) continue;
    if (each->length) key += "length" + bytes_of(*each->length);
    if (each->offset) key += "offset" + bytes_of(*each->offset);
    for (const std::uint64_t member : each->members) key += std::to_string(member) + ',';
  }
  return key;
}

// Each point has a known call of its own.
std::string known_key(const CapturePoint& probed) {
  return probed.known == nullptr ? "" : fmt::format("known {} ", fmt::ptr(probed.known.get()));
}

} // namespace

CapturePhases phases_of(const CaptureSpec& capture) {
  return {.entry = capture.on_entry || capture.pair_calls,
          .exit = capture.on_return || capture.pair_calls,
          .paired = capture.pair_calls};
}

Result<CapturePlan> CapturePlan::make(const CaptureSpec& capture,
                                      std::span<const CapturePoint> points) {
  const Planner planner(capture, points);
  if (auto checked = planner.check(); !checked) return fail(std::move(checked).error());
  auto filters = FilterCompiler::make(capture);
  if (!filters) return fail(std::move(filters).error());
  GroupSelection groups(capture.groups);
  CapturePlan plan;
  std::map<std::tuple<std::size_t, CodeKind, std::optional<reading_form>, bool, bool, bool, bool,
                      bool, std::string>,
           Probe>
      known;
  std::map<std::string, std::uint32_t> numbers; // of plans, by their bytes
  for (const CapturePoint& probed : points) {
    const ProbePoint& point = *probed.point;
    if (!probed.is_recorded) { // the program never looks its plan up
      plan.probes_.push_back(
          {.point = &point, .plan = 0, .values = std::make_shared<const ValuePlan>()});
      continue;
    }
    const CodeAbi& code = probed.code;
    const std::size_t list = planner.find_list(point);
    const bool at_start = point.symbol_offset == 0;
    const bool is_entry = planner.is_entry(point);
    const bool by_goroutine = planner.is_by_goroutine(point, code);
    const StaticProbeLocation location{.probe = point.static_probe.get(),
                                       .address = uprobe_address(point)};
    const auto [same, is_new] =
        known.emplace(std::tuple(list, code.kind, code.strings, at_start, is_entry, by_goroutine,
                                 point.inlined_into != nullptr, probed.has_return_address,
                                 prepared_key(probed) + known_key(probed) + reading_key(location) +
                                     signature_key(point.java.get())),
                      Probe{});
    if (is_new) {
      auto declared = planner.declare(list, probed, at_start);
      if (declared) declared = groups.select(std::move(*declared), probed.values.get());
      auto made = declared ? planner.make_plan(list, *declared, probed, at_start, location,
                                               *filters, same->second.values)
                           : fail(Error(declared.error()));
      if (!made) {
        Error error = std::move(made).error();
        error.message.insert(0, display_name(point) + ": ");
        return fail(std::move(error));
      }
      const auto number = static_cast<std::uint32_t>(plan.plans_.size());
      const auto [equal, is_first] = numbers.emplace(bytes_of(*made), number);
      if (is_first) plan.plans_.push_back(*made);
      same->second.plan = equal->second;
    }
    Probe& probe = plan.probes_.emplace_back(same->second);
    probe.point = probed.point;
  }
  if (auto checked = groups.check(); !checked) return fail(std::move(checked).error());
  plan.shows_registers_ = capture.registers;
  plan.copies_stacks_ = capture.stack == StackWalk::frame_data;
  const auto is_argument = [](const ArgumentSource& source) {
    return source.kind == ArgumentSource::Kind::argument;
  };
  plan.compares_arguments_ =
      (capture.measured && capture.measured->source && is_argument(*capture.measured->source)) ||
      std::ranges::any_of(capture.filter.terms, [&](const ConditionSpec& condition) {
        return !condition.name && !condition.fact && is_argument(condition.source);
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

std::vector<std::string> CapturePlan::describe_problems(std::size_t probe) const {
  std::vector<std::string> problems;
  if (copies_stacks_ && (plan_of(probe).flags & COPY_STACK) == 0)
    problems.emplace_back("stacks of 32-bit code cannot be unwound");
  for (std::string& each : probes_[probe].values->describe_problems())
    problems.push_back(std::move(each));
  return problems;
}

} // namespace uprobectl
