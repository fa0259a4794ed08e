// SPDX-License-Identifier: Apache-2.0
#include "events/value_conditions.hpp"

#include "util/arithmetic.hpp"

#include <algorithm>
#include <bit>

namespace uprobectl::events {

namespace {

// The number of a value, extended to 64 bits as its type says; of a floating-point number its bits.
std::optional<std::uint64_t> bits_of(const values::Value& value, const values::ValueType& type) {
  if (type.is_floating) {
    const auto real = real_of(value);
    if (!real) return std::nullopt;
    if (type.bits == 64) return std::bit_cast<std::uint64_t>(*real);
    return std::bit_cast<std::uint32_t>(static_cast<float>(*real));
  }
  if (type.name == "char" && type.bits == 32) // of Rust
    if (const auto character = code_point_of(value)) return *character;
  const auto number = number_of(value);
  if (!number) return std::nullopt;
  const auto bits = static_cast<std::uint64_t>(*number);
  if (!type.is_known() || type.bits == 0 || type.bits >= 64) return bits;
  return type.is_signed ? static_cast<std::uint64_t>(sign_extended(bits, type.bits))
                        : bits & ((std::uint64_t{1} << type.bits) - 1);
}

// The text of a value, and whether it is all of it.
std::optional<std::pair<std::string_view, bool>> value_text(const values::Value& value) {
  if (const auto* const text = std::get_if<std::string>(&value.value)) return {{*text, true}};
  if (const auto* const cut = std::get_if<values::Value::TruncatedString>(&value.value))
    return {{cut->text, false}};
  if (const auto* const raw = std::get_if<values::Value::Raw>(&value.value))
    return {{as_text(raw->bytes), !raw->is_truncated}};
  return std::nullopt;
}

} // namespace

Result<ConditionTexts> ConditionTexts::make(const ConditionSpec& spec) {
  ConditionTexts made;
  made.are_bytes_ = spec.compares_bytes();
  if (spec.patterns.empty()) return made;
  if (is_large_set(spec.patterns)) {
    for (const TextPattern& each : spec.patterns) made.set_.insert(each.text);
    return made;
  }
  auto machine = compile_patterns(spec.patterns);
  if (!machine) return fail(describe_error(spec, {spec.constant_at, std::move(machine).error()}));
  made.machine_ = std::move(*machine);
  return made;
}

Truth ConditionTexts::match(std::string_view text, bool is_whole) const {
  if (!set_.empty()) {
    const auto end = text.find('\0');
    if (end == std::string_view::npos && !is_whole) return Truth::unread;
    return truth_of(set_.contains(text.substr(0, end)));
  }
  std::size_t state = PATTERN_START;
  for (const char each : text) {
    state = machine_[state][static_cast<unsigned char>(each)];
    if (state < PATTERN_START) return truth_of(state == PATTERN_ACCEPTS);
  }
  if (!is_whole) return Truth::unread;
  if (are_bytes_) return Truth::no; // it has fewer bytes
  return truth_of(machine_[state][0] == PATTERN_ACCEPTS);
}

Truth evaluate_condition(const PreparedTerm& condition, const ConditionTexts& texts,
                         const values::ValueType& type, const values::Value& value) {
  if (const auto* const unread = std::get_if<values::Value::Unreadable>(&value.value);
      unread != nullptr && unread->reason == values::no_value)
    return Truth::unknown;
  if (type.use == values::ValueUse::number) {
    const auto bits = bits_of(value, type);
    return bits ? truth_of(fulfils(condition, *bits)) : Truth::unread;
  }
  const auto text = value_text(value);
  if (!text) return Truth::unread;
  // Characters are saved up to their NUL.
  if (texts.are_bytes() && std::holds_alternative<std::string>(value.value))
    return texts.match(std::string(text->first) + '\0', false);
  return texts.match(text->first, text->second);
}

bool evaluate_expression(const FilterNode& node,
                         const std::function<Truth(std::size_t term)>& truth) {
  const auto holds = [&](const FilterNode& part) { return evaluate_expression(part, truth); };
  switch (node.kind) {
  case FilterNode::Kind::all:
    return std::ranges::all_of(node.parts, holds);
  case FilterNode::Kind::any:
    return std::ranges::any_of(node.parts, holds);
  case FilterNode::Kind::term:
    break;
  }
  return truth(node.term) == truth_of(!node.negated);
}

} // namespace uprobectl::events
