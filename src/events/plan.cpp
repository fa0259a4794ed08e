// SPDX-License-Identifier: Apache-2.0
#include "events/plan.hpp"

#include "events/argument_lists.hpp"
#include "events/filter_program.hpp"
#include "events/group_selection.hpp"
#include "events/java_method.hpp"
#include "events/plan_layout.hpp"
#include "events/readings.hpp"

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

std::vector<PlannedArgument> plan_arguments(std::span<const ArgumentSpec> specs,
                                            const StaticProbe* probe) {
  std::vector<PlannedArgument> planned;
  for (const ArgumentSpec& spec : specs)
    planned.push_back({.spec = spec, .reading = 0, .problem = argument_problem(spec, probe)});
  return assign_readings(std::move(planned));
}

// Plans the arguments and the return value of a Java method, as many as a record can hold.
std::vector<PlannedArgument> plan_java_arguments(const JavaMethod& method, CodeKind kind,
                                                 bool arguments, bool on_return) {
  std::vector<JavaArgument> known;
  if (arguments) known = java_arguments(method, kind);
  const auto returned = on_return ? java_return(method, kind) : std::nullopt;
  const std::size_t room = MAX_READINGS - (returned && returned->problem.empty() ? 1 : 0);
  if (returned) known.push_back(*returned);
  std::vector<PlannedArgument> planned;
  std::size_t read = 0;
  for (JavaArgument& each : known) {
    const bool is_return = each.spec.source.kind == ArgumentSource::Kind::returned;
    if (each.problem.empty() && !is_return && ++read > room)
      each.problem = "a record can hold " + std::to_string(MAX_READINGS) + " values";
    planned.push_back({.spec = std::move(each.spec), .problem = std::move(each.problem)});
  }
  return assign_readings(std::move(planned));
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

// Makes the record formats, plans and settings of the points.
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

  std::size_t find_list(const ProbePoint& point) const { return lists_.find(point); }

  Result<RecordFormat> make_format(std::size_t list, const CapturePoint& probed,
                                   bool at_start) const {
    const ProbePoint& point = *probed.point;
    const CodeAbi& abi = probed.code;
    if (probed.prepared && probed.prepared->replaces_arguments)
      return RecordFormat{.arguments = {}, .prepared = probed.prepared->readings.size()};
    const StaticProbe* const probe = point.static_probe.get();
    const ArgumentList* asked =
        list < capture_.arguments.size() ? &capture_.arguments[list] : nullptr;
    if (asked != nullptr && asked->is_implied &&
        (probe != nullptr || point.java || probed.known != nullptr))
      asked = nullptr;
    const bool has_paths = asked != nullptr && !asked->paths.empty() && asked->arguments.empty();
    if (has_paths && !capture_.captures_values()) return RecordFormat{};
    if (has_paths)
      return fail(ErrorKind::not_found, fmt::format("'{}' needs debug information of the function",
                                                    asked->paths.front().text));
    if (probe != nullptr) {
      auto specs = static_probe_arguments(*probe, asked);
      if (!specs) return fail(std::move(specs).error());
      return RecordFormat{.arguments = plan_arguments(*specs, probe)};
    }
    if (asked != nullptr) {
      if (point.java)
        return RecordFormat{.arguments = plan_arguments(with_this(asked->arguments), nullptr)};
      return RecordFormat{.arguments = plan_arguments(asked->arguments, nullptr)};
    }
    if (probed.known != nullptr)
      return RecordFormat{.arguments = plan_arguments(probed.known->arguments, nullptr),
                          .known = probed.known};
    // The registers of an inlined call do not hold arguments.
    if (point.inlined_into) return RecordFormat{};
    const bool at_entry = capture_.on_entry || capture_.pair_calls;
    if (point.java && at_start)
      return RecordFormat{.arguments =
                              plan_java_arguments(*point.java, abi.kind, at_entry,
                                                  capture_.on_return || capture_.pair_calls)};
    const bool elsewhere = abi.kind != CodeKind::native;
    if (elsewhere && at_entry)
      return RecordFormat{.arguments = plan_arguments(six_integer_arguments(), nullptr)};
    return RecordFormat{.arguments = {}, .six_registers = true};
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

  Result<capture_plan> make_plan(const RecordFormat& format, const CapturePoint& probed,
                                 bool at_start, const StaticProbeLocation& location,
                                 FilterCompiler& filters) const {
    const CodeAbi& abi = probed.code;
    const auto convention = calling_convention(abi.kind);
    if (!convention)
      return fail(ErrorKind::unsupported, "the kernel of this machine cannot probe 32-bit code");
    const ReadingBuilder builder(capture_, *convention, abi, at_start,
                                 probed.point->inlined_into != nullptr, location,
                                 probed.point->java.get());
    if (probed.prepared)
      if (auto checked = check_prepared(*probed.prepared, moments_of(capture_)); !checked)
        return fail(std::move(checked).error());
    capture_plan plan{};
    plan.flags = plan_flags(format, probed);
    if (convention->pointer_size == 4) plan.flags |= POINTERS_32;
    auto added = format.prepared > 0 ? add_prepared(*probed.prepared, plan)
                                     : add_readings(builder, format, plan);
    if (!added) return fail(std::move(added).error());
    if (added = add_filters(builder, format, probed, plan, filters); !added)
      return fail(std::move(added).error());
    if (added = add_measured(builder, format, probed, plan); !added)
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
    if (capture_.by_trampoline) settings.nesting = capture_.nesting;
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
    if (capture_.by_trampoline) flags |= BY_TRAMPOLINE;
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
  unsigned plan_flags(const RecordFormat& format, const CapturePoint& probed) const {
    unsigned flags = 0;
    if (capture_.stack == StackWalk::frame_data && probed.code.kind != CodeKind::native_32)
      flags |= COPY_STACK;
    const bool asks_for_stacks =
        capture_.count_stacks || capture_.groups.has(BY_STACK) || capture_.stack != StackWalk::none;
    if (asks_for_stacks && (is_entry(*probed.point) || probed.has_return_address))
      flags |= AT_FUNCTION_START;
    if (is_by_goroutine(*probed.point, probed.code)) flags |= BY_GOROUTINE;
    if (format.six_registers) flags |= SIX_ARGUMENTS;
    return flags;
  }

  // Requires that check_prepared() has accepted it.
  static Result<void> add_prepared(const PreparedCapture& prepared, capture_plan& plan) {
    std::ranges::copy(prepared.readings, plan.readings);
    plan.reading_count = static_cast<std::uint32_t>(prepared.readings.size());
    return {};
  }

  Result<void> add_readings(const ReadingBuilder& builder, const RecordFormat& format,
                            capture_plan& plan) const {
    // Conditions use the names and types of what a known function takes, and nothing else is read.
    if (format.known && !capture_.captures_values()) return {};
    for (const PlannedArgument& planned : format.arguments) {
      if (!planned.problem.empty()) continue;
      auto made = builder.build_argument(planned.spec, format.arguments);
      if (!made) return fail(std::move(made).error());
      if (!capture_.groups.by.empty())
        made->in_group = group_part_of(capture_.groups, planned, *made);
      plan.readings[planned.reading] = *made;
      ++plan.reading_count;
    }
    return {};
  }

  Result<void> add_filters(const ReadingBuilder& builder, const RecordFormat& format,
                           const CapturePoint& probed, capture_plan& plan,
                           FilterCompiler& filters) const {
    std::vector<PreparedTerm> terms;
    for (std::size_t i = 0; i < capture_.filter.terms.size(); ++i) {
      if (probed.prepared && i < probed.prepared->conditions.size() &&
          probed.prepared->conditions[i]) {
        terms.push_back(*probed.prepared->conditions[i]);
      } else {
        auto made = builder.build_condition(capture_.filter.terms[i], format.arguments);
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

  Result<void> add_measured(const ReadingBuilder& builder, const RecordFormat& format,
                            const CapturePoint& probed, capture_plan& plan) const {
    if (!capture_.measured) return {};
    if (probed.prepared && probed.prepared->measured) {
      plan.measured = *probed.prepared->measured;
      return {};
    }
    auto measured = builder.build_measured(*capture_.measured, format.arguments);
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

// Returns a key that is equal for points with equal prepared captures.
std::string prepared_key(const CapturePoint& probed) {
  if (!probed.prepared) return {};
  const PreparedCapture& prepared = *probed.prepared;
  std::string key = (prepared.replaces_arguments ? "prepared " : "with arguments ") +
                    std::to_string(prepared.readings.size()) + ' ' +
                    std::to_string(prepared.max_bytes);
  for (const reading& each : prepared.readings) key += bytes_of(each);
  if (prepared.measured) key += "measured" + bytes_of(*prepared.measured);
  for (const auto& each : prepared.conditions) {
    key += each ? "condition" + bytes_of(each->term) : "none";
    if (!each) continue;
    if (each->length) key += "length" + bytes_of(*each->length);
    for (const std::uint64_t member : each->members) key += std::to_string(member) + ',';
  }
  return key;
}

// Each point has a known call of its own.
std::string known_key(const CapturePoint& probed) {
  return probed.known == nullptr ? "" : fmt::format("known {} ", fmt::ptr(probed.known.get()));
}

} // namespace

CaptureMoments moments_of(const CaptureSpec& capture) {
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
          {.point = &point, .plan = 0, .format = static_cast<std::uint32_t>(plan.formats_.size())});
      plan.formats_.emplace_back();
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
      auto format = planner.make_format(list, probed, at_start);
      if (format) format = groups.select(std::move(*format));
      auto made = format ? planner.make_plan(*format, probed, at_start, location, *filters)
                         : fail(Error(format.error()));
      if (!made) {
        Error error = std::move(made).error();
        error.message.insert(0, display_name(point) + ": ");
        return fail(std::move(error));
      }
      const auto number = static_cast<std::uint32_t>(plan.plans_.size());
      const auto [equal, is_first] = numbers.emplace(bytes_of(*made), number);
      if (is_first) plan.plans_.push_back(*made);
      same->second = {.plan = equal->second,
                      .format = static_cast<std::uint32_t>(plan.formats_.size())};
      plan.formats_.push_back(std::move(*format));
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
  return compares_arguments_ ||
         std::ranges::any_of(formats_[probes_[probe].format].arguments,
                             [](const PlannedArgument& each) {
                               return each.spec.source.kind == ArgumentSource::Kind::argument;
                             });
}

std::vector<std::string> CapturePlan::describe_problems(std::size_t probe) const {
  std::vector<std::string> problems;
  if (copies_stacks_ && (plan_of(probe).flags & COPY_STACK) == 0)
    problems.emplace_back("stacks of 32-bit code cannot be unwound");
  for (const PlannedArgument& each : formats_[probes_[probe].format].arguments)
    if (!each.problem.empty())
      problems.push_back(each.spec.name + " cannot be read (" + each.problem + ")");
  return problems;
}

} // namespace uprobectl
