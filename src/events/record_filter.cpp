// SPDX-License-Identifier: Apache-2.0
#include "events/record_filter.hpp"

#include "events/event_values.hpp"
#include "events/readings.hpp"

#include <algorithm>
#include <compare>
#include <fmt/format.h>
#include <utility>

namespace uprobectl {

namespace {

// An integer with its sign: one of 64 bits, or a negative one.
struct Integer {
  bool negative = false;
  std::uint64_t magnitude = 0;

  std::strong_ordering operator<=>(const Integer& other) const {
    if (negative != other.negative)
      return negative ? std::strong_ordering::less : std::strong_ordering::greater;
    return negative ? other.magnitude <=> magnitude : magnitude <=> other.magnitude;
  }
  bool operator==(const Integer&) const = default;
};

Integer integer_of(const FilterConstant& constant) {
  return {.negative = constant.negative && constant.magnitude != 0,
          .magnitude = constant.magnitude};
}

std::optional<Integer> integer_of(const DataValue& value) {
  const auto number = number_of(value);
  if (!number) return std::nullopt;
  const bool is_signed = std::holds_alternative<std::int64_t>(value.value);
  const auto bits = static_cast<std::uint64_t>(*number);
  if (is_signed && *number < 0) return Integer{.negative = true, .magnitude = 0 - bits};
  return Integer{.magnitude = bits};
}

std::optional<std::string_view> text_of(const DataValue& value) {
  if (const auto* const text = std::get_if<std::string>(&value.value)) return *text;
  if (const auto* const name = std::get_if<DataValue::Name>(&value.value)) return name->text;
  if (const auto* const raw = std::get_if<DataValue::Raw>(&value.value)) return as_text(raw->bytes);
  return std::nullopt;
}

bool is_ordered(Comparison comparison, std::partial_ordering order) {
  switch (comparison) {
  case Comparison::equal:
    return order == 0;
  case Comparison::not_equal:
    return order != 0;
  case Comparison::less:
    return order < 0;
  case Comparison::more:
    return order > 0;
  case Comparison::at_most:
    return order <= 0;
  case Comparison::at_least:
    return order >= 0;
  case Comparison::has_bits:
  case Comparison::in_set:
  case Comparison::matches:
    break;
  }
  return false;
}

std::optional<bool> compare_real(const ConditionSpec& spec, double value) {
  const auto real = [](const FilterConstant& constant) {
    if (constant.real) return *constant.real;
    const auto magnitude = static_cast<double>(constant.magnitude);
    return constant.negative ? -magnitude : magnitude;
  };
  if (spec.comparison == Comparison::has_bits) return std::nullopt;
  if (spec.comparison == Comparison::in_set)
    return std::ranges::any_of(spec.members,
                               [&](const FilterConstant& each) { return real(each) == value; });
  return is_ordered(spec.comparison, value <=> real(spec.constant));
}

// Compares an enumerator with a name, or a number with a number.
std::optional<bool> equals(const FilterConstant& constant, const DataValue& value) {
  if (!constant.name.empty()) {
    const auto* const name = std::get_if<DataValue::Name>(&value.value);
    return name != nullptr ? std::optional(name->text == constant.name) : std::nullopt;
  }
  const auto number = integer_of(value);
  if (!number || constant.real) return std::nullopt;
  return *number == integer_of(constant);
}

std::optional<bool> compare_number(const ConditionSpec& spec, const DataValue& value) {
  if (const auto* const real = std::get_if<double>(&value.value)) return compare_real(spec, *real);
  if (spec.comparison == Comparison::in_set) {
    bool is_known = false;
    for (const FilterConstant& each : spec.members) {
      const auto is_equal = equals(each, value);
      if (is_equal == true) return true;
      is_known |= is_equal.has_value();
    }
    return is_known ? std::optional(false) : std::nullopt;
  }
  if (spec.comparison == Comparison::equal) return equals(spec.constant, value);
  if (spec.comparison == Comparison::not_equal) {
    const auto is_equal = equals(spec.constant, value);
    return is_equal ? std::optional(!*is_equal) : std::nullopt;
  }
  const auto number = integer_of(value);
  if (!number || !spec.constant.name.empty() || spec.constant.real) return std::nullopt;
  if (spec.comparison == Comparison::has_bits) {
    const auto bits = static_cast<std::uint64_t>(number_of(value).value_or(0));
    return (bits & number_of(spec.constant)) != 0;
  }
  return is_ordered(spec.comparison, *number <=> integer_of(spec.constant));
}

// What the sender of a record has.
bool is_of_sender(std::optional<filter_subject> subject) {
  return subject == COMPARE_THREAD_ID || subject == COMPARE_PROCESS_ID || subject == COMPARE_CPU;
}

// What a name means that no member has.
std::optional<DataValue> find_sender(const ConditionSpec& spec, const Event& event) {
  if (event.time_ns == 0 || !spec.built_in) return std::nullopt; // the sender is not known
  if (*spec.built_in == COMPARE_THREAD_ID) return DataValue{std::uint64_t{event.tid}};
  if (*spec.built_in == COMPARE_PROCESS_ID) return DataValue{std::uint64_t{event.pid}};
  if (*spec.built_in == COMPARE_CPU) return DataValue{std::uint64_t{event.cpu}};
  return std::nullopt;
}

} // namespace

bool RecordFilter::Texts::match(std::string_view text) const {
  if (states.empty()) return exact.contains(text.substr(0, text.find('\0')));
  std::size_t state = PATTERN_START;
  for (std::size_t i = 0; i <= text.size() && state >= PATTERN_START; ++i)
    state = states[state][i < text.size() ? static_cast<unsigned char>(text[i]) : 0];
  return state == PATTERN_ACCEPTS;
}

Result<RecordFilter> RecordFilter::make(Filter filter) {
  RecordFilter made;
  for (const ConditionSpec& spec : filter.terms) {
    // "$thread", or --thread, which stands for it.
    if (!spec.path && !is_of_sender(spec.built_in))
      return fail(describe_error(
          spec, wrong_at(spec.value_at, "records of a user's program do not have it").error()));
    if (spec.type)
      return fail(describe_error(
          spec,
          wrong_at(spec.type_at, "members of records have the types of their source").error()));
    Texts& texts = made.texts_.emplace_back();
    const bool is_exact = std::ranges::all_of(spec.patterns, [](const TextPattern& each) {
      return each.kind == TextPattern::Kind::exact && !each.is_bytes;
    });
    if (is_exact) {
      for (const TextPattern& each : spec.patterns) texts.exact.insert(each.text);
      continue;
    }
    auto states = compile_patterns(spec.patterns);
    if (!states) return fail(std::move(states).error().within(spec.text));
    texts.states = std::move(*states);
  }
  made.was_found_.resize(filter.terms.size());
  made.filter_ = std::move(filter);
  return made;
}

std::optional<bool> RecordFilter::compare(std::size_t term, const Event& event) {
  const ConditionSpec& spec = filter_.terms[term];
  const DataValue* value = spec.path && event.record != nullptr
                               ? find_record_member(*event.record, *spec.path)
                               : nullptr;
  std::optional<DataValue> sender;
  if (value == nullptr) {
    sender = find_sender(spec, event);
    if (!sender) return std::nullopt;
    value = &*sender;
  }
  was_found_[term] = true;
  if (spec.comparison != Comparison::matches) return compare_number(spec, *value);
  const auto text = text_of(*value);
  return text ? std::optional(texts_[term].match(*text)) : std::nullopt;
}

// Decides all comparisons, so that list_unknown() has those of unknown members only.
bool RecordFilter::holds(const FilterNode& node, const Event& event) {
  if (node.kind == FilterNode::Kind::term) {
    const auto result = compare(node.term, event);
    return result && *result != node.negated;
  }
  const auto holding =
      std::ranges::count_if(node.parts, [&](const auto& part) { return holds(part, event); });
  if (node.kind == FilterNode::Kind::any) return holding > 0;
  return holding == std::ssize(node.parts);
}

bool RecordFilter::holds(const Event& event) {
  has_seen_ = true;
  const auto holding = std::ranges::count_if(
      filter_.expressions, [&](const FilterExpression& each) { return holds(each.root, event); });
  return holding == std::ssize(filter_.expressions);
}

std::vector<std::string> RecordFilter::list_unknown() const {
  std::vector<std::string> unknown;
  for (std::size_t i = 0; has_seen_ && i < was_found_.size(); ++i)
    if (!was_found_[i]) unknown.push_back(filter_.terms[i].text);
  return unknown;
}

} // namespace uprobectl
