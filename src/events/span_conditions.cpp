// SPDX-License-Identifier: Apache-2.0
#include "events/span_conditions.hpp"

#include "events/built_in_variables.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace uprobectl::events {

namespace {

constexpr std::string_view end_variable = "to";
constexpr std::string_view end_prefix = "to.";

void add_terms(const FilterNode& node, std::vector<bool>& terms) {
  if (node.kind == FilterNode::Kind::term) terms[node.term] = true;
  for (const FilterNode& part : node.parts) add_terms(part, terms);
}

Comparison negated_comparison(Comparison comparison) {
  switch (comparison) {
  case Comparison::less:
    return Comparison::at_least;
  case Comparison::more:
    return Comparison::at_most;
  case Comparison::at_most:
    return Comparison::more;
  case Comparison::at_least:
    return Comparison::less;
  case Comparison::equal:
  case Comparison::not_equal:
  case Comparison::has_bits:
  case Comparison::in_set:
  case Comparison::matches:
    break;
  }
  return comparison;
}

bool is_duration(const ConditionSpec& spec) { return spec.built_in == COMPARE_LATENCY; }

Error wrong_condition(const ConditionSpec& spec, std::string_view what) {
  return describe_error(spec, Error{ErrorKind::usage, std::string(what)});
}

// Narrows the range of durations by a comparison.
Result<void> add_duration(const ConditionSpec& spec, bool negated, SpanConditions& conditions) {
  constexpr auto greatest =
      static_cast<std::uint64_t>(std::numeric_limits<std::chrono::nanoseconds::rep>::max());
  const Comparison comparison = negated ? negated_comparison(spec.comparison) : spec.comparison;
  const FilterConstant& constant = spec.constant;
  if (!is_order(comparison) || constant.negative || !constant.name.empty() || constant.real ||
      constant.magnitude >= greatest)
    return fail(
        wrong_condition(spec, "the duration of a span is compared by < <= > >= with a time such as "
                              "5ms"));
  const bool is_strict = comparison == Comparison::less || comparison == Comparison::more;
  const std::chrono::nanoseconds time(static_cast<std::int64_t>(constant.magnitude));
  const std::chrono::nanoseconds step(is_strict ? 1 : 0);
  if (comparison == Comparison::more || comparison == Comparison::at_least) {
    conditions.min = std::max(conditions.min.value_or(time + step), time + step);
    return {};
  }
  if (time - step <= std::chrono::nanoseconds(0))
    return fail(wrong_condition(spec, "no span is as short"));
  conditions.max = std::min(conditions.max.value_or(time - step), time - step);
  return {};
}

Result<void> add_part(const Filter& filter, const FilterExpression& expression,
                      const FilterNode& part, SpanConditions& conditions) {
  bool begins = false;
  bool ends = false;
  const ConditionSpec* duration = nullptr;
  const std::vector<bool> used = [&] {
    std::vector<bool> terms(filter.terms.size());
    add_terms(part, terms);
    return terms;
  }();
  const ConditionSpec* last = nullptr;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    const ConditionSpec& spec = filter.terms[i];
    last = &spec;
    if (is_duration(spec)) {
      duration = &spec;
      continue;
    }
    const auto time = spec.built_in ? call_time_of(*spec.built_in) : std::nullopt;
    if (needs_waits(time))
      return fail(wrong_condition(
          spec, fmt::format("it is not known of a span while the run goes on: save the run with "
                            "{}, and use report --if",
                            needs_causes(time) ? "--off-cpu" : "--cpu")));
    const auto at_end = condition_at_end(spec);
    (at_end ? ends : begins) = true;
    if (at_end && (at_end->built_in == COMPARE_ERRNO || at_end->built_in == COMPARE_CALLER))
      return fail(
          wrong_condition(spec, "errno and the caller are compared only where a span begins"));
  }
  if (duration != nullptr && part.kind == FilterNode::Kind::term)
    return add_duration(*duration, part.negated, conditions);
  if (duration != nullptr || (begins && ends))
    return fail(wrong_condition(*last,
                                "values of FROM, values of TO and the duration can be joined by && "
                                "only"));
  (ends ? conditions.ends : conditions.begins).push_back({.typed = expression.typed, .root = part});
  return {};
}

} // namespace

std::optional<ValuePath> value_at_end(const ValuePath& path) {
  const auto is_member = [](const ValuePath::Step& step) {
    return step.kind == ValuePath::Step::Kind::member;
  };
  const std::size_t at = path.text.find(end_prefix);
  if (path.variable != end_variable || path.steps.empty() || !is_member(path.steps.front()) ||
      at == std::string::npos)
    return std::nullopt;
  ValuePath value = path;
  value.variable = value.steps.front().name;
  value.steps.erase(value.steps.begin());
  value.text.erase(at, end_prefix.size());
  for (ValuePath::Step& step : value.steps)
    if (step.at > at) step.at -= end_prefix.size();
  return value;
}

std::optional<std::string> name_at_end(std::string_view text) {
  const auto path = text.contains(end_prefix) ? parse_value_path(text) : Result<ValuePath>();
  auto value = path ? value_at_end(*path) : std::nullopt;
  return value ? std::optional(std::move(value->text)) : std::nullopt;
}

std::optional<ConditionSpec> condition_at_end(const ConditionSpec& spec) {
  auto path = spec.path ? value_at_end(*spec.path) : std::nullopt;
  if (!path) return std::nullopt;
  ConditionSpec made = spec;
  if (!made.type) made.built_in = find_built_in(*path);
  made.path = std::move(path);
  return made;
}

std::vector<bool> find_used_terms(std::span<const FilterExpression> expressions,
                                  std::size_t terms) {
  std::vector<bool> used(terms);
  for (const FilterExpression& each : expressions) add_terms(each.root, used);
  return used;
}

Result<SpanConditions> split_span_conditions(const Filter& filter) {
  SpanConditions conditions;
  for (const FilterExpression& each : filter.expressions) {
    std::vector<const FilterNode*> parts;
    split_conjuncts(each.root, parts);
    for (const FilterNode* const part : parts)
      if (auto added = add_part(filter, each, *part, conditions); !added)
        return fail(std::move(added).error());
  }
  return conditions;
}

} // namespace uprobectl::events
