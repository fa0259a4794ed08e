// SPDX-License-Identifier: Apache-2.0
#include "events/conditions.hpp"

#include "events/readings.hpp"
#include "util/arithmetic.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace uprobectl {

namespace {

// Whether the spelling of a constant is that of an enumerator: "red", "Color::red",
// "shop::Color::red".
bool names_enumerator(std::string_view written, const dwarf::Type& type,
                      const std::string& enumerator) {
  if (written == enumerator) return true;
  if (!written.ends_with("::" + enumerator)) return false;
  const std::string_view scope = written.substr(0, written.size() - enumerator.size() - 2);
  const std::string_view name = type.plain_name();
  if (name == scope || name.ends_with(fmt::format("::{}", scope))) return true;
  // An unscoped enumerator is in the scope of its enumeration: "shop::red".
  const auto outer = name.rfind("::");
  return !type.is_scoped_enumeration() && outer != std::string_view::npos &&
         (name.substr(0, outer) == scope ||
          name.substr(0, outer).ends_with(fmt::format("::{}", scope)));
}

Result<std::uint64_t> find_enumerator(const std::string& name, const ComparedValue& value) {
  std::vector<std::string> names;
  if (value.enumeration != nullptr)
    for (const dwarf::Enumerator& each : value.enumeration->enumerators()) {
      if (names_enumerator(name, *value.enumeration, each.name))
        return static_cast<std::uint64_t>(each.value);
      names.push_back(each.name);
    }
  Error error{ErrorKind::usage,
              names.empty() ? fmt::format("'{}' is not a number", name)
                            : fmt::format("{} has no enumerator '{}'", value.type_name, name)};
  if (const auto near = nearest(name.substr(name.rfind(':') + 1), names); !near.empty())
    return fail(std::move(error).hint(did_you_mean(near)));
  return fail(std::move(error));
}

double real_number(const FilterConstant& constant) {
  if (constant.real) return *constant.real;
  const auto magnitude = static_cast<double>(constant.magnitude);
  return constant.negative ? -magnitude : magnitude;
}

Result<std::uint64_t> find_constant(const ConditionSpec& spec, const FilterConstant& constant,
                                    const ComparedValue& value) {
  if (!constant.name.empty()) return find_enumerator(constant.name, value);
  if (value.is_floating)
    return static_cast<std::uint64_t>(order_float(real_number(constant), value.bits / 8));
  if (constant.real)
    return fail(ErrorKind::usage, fmt::format("{} has no fraction or exponent",
                                              value.has_type() ? value.type_name : "an integer"));
  if ((value.has_type() && !can_hold(value.bits, value.is_signed, spec.comparison, constant)))
    return fail(ErrorKind::usage, fmt::format("{} cannot have this value",
                                              value.has_type() ? value.type_name : "an integer"));
  const std::uint64_t number = number_of(constant);
  // As C converts them: -1 is the largest number of an unsigned type.
  const bool is_cut = constant.negative && value.has_type() && !value.is_signed && value.bits < 64;
  return is_cut ? number & ((std::uint64_t{1} << value.bits) - 1) : number;
}

// Whether the value of a register without a type is one of 32 bits with a sign if it can be: the
// comparison asks for the sign.
bool asks_for_sign(const ConditionSpec& spec) {
  const bool is_order =
      spec.comparison == Comparison::less || spec.comparison == Comparison::at_most ||
      spec.comparison == Comparison::more || spec.comparison == Comparison::at_least;
  return spec.constant.negative || (is_order && spec.constant.magnitude == 0) ||
         std::ranges::any_of(spec.members, &FilterConstant::negative);
}

ConditionResult<PreparedTerm> compare_number(const ConditionSpec& spec, PreparedTerm made,
                                             const ComparedValue& value) {
  if (value.is_floating && spec.comparison == Comparison::has_bits)
    return wrong_at(spec.constant_at, "a floating-point number has no bits to compare");
  const auto add = [&](const FilterConstant& each) -> ConditionResult<std::uint64_t> {
    auto constant = find_constant(spec, each, value);
    if (!constant) return wrong_at(spec.place_of(each), std::move(constant).error());
    return *constant;
  };
  const auto constant = add(spec.constant);
  if (!constant) return std::unexpected(constant.error());
  made.term.constant = *constant;
  for (const FilterConstant& each : spec.members) {
    const auto member = add(each);
    if (!member) return std::unexpected(member.error());
    made.members.push_back(*member);
  }
  made.term.float_size = static_cast<record_u8>(value.is_floating ? value.bits / 8 : 0);
  if (spec.comparison == Comparison::has_bits) return made; // bits have no sign
  // A number that no signed value exceeds makes the comparison unsigned.
  constexpr auto largest = static_cast<std::uint64_t>(INT64_MAX);
  const bool takes_sign = spec.constant.negative || spec.constant.magnitude < largest;
  const bool is_signed = value.has_type() ? value.is_signed || value.is_floating : takes_sign;
  made.term.is_signed = is_signed ? 1 : 0;
  made.term.guess_sign = !value.has_type() && asks_for_sign(spec) ? 1 : 0;
  return made;
}

ConditionResult<PreparedTerm> compare_bytes(const ConditionSpec& spec, PreparedTerm made,
                                            const ComparedValue& value) {
  const TextPattern& pattern = spec.patterns.front();
  const std::size_t size = pattern.text.size();
  if (pattern.kind == TextPattern::Kind::exact && value.size != size) {
    const bool has_name = !value.length_name.empty();
    return wrong_at(
        spec.constant_at,
        Error{ErrorKind::usage,
              value.size ? fmt::format("the buffer has {} bytes, not {}", *value.size, size)
              : has_name ? "the buffer has a length that varies"
                         : "the length of the buffer is not known"}
            .hint("compare its first bytes with ^=" +
                  (has_name ? fmt::format(", and its length: '{} == {}'", value.length_name, size)
                            : std::string())));
  }
  if (value.size && *value.size < size)
    return wrong_at(spec.constant_at, fmt::format("the buffer has only {} bytes", *value.size));
  made.term.value.capacity = static_cast<record_u32>(size);
  return made;
}

// What a value is instead of what it is compared with.
std::string describe_mismatch(ValueUse wanted, const ComparedValue& value) {
  if (wanted == ValueUse::bytes) return "only buffers can be compared with bytes";
  if (wanted == ValueUse::number)
    return value.kind == ValueUse::text ? "it is a string: compare it with one in quotes"
                                        : "it is a buffer: compare it with hex\"DIGITS\"";
  if (value.kind == ValueUse::bytes) return "a buffer is compared with hex\"DIGITS\"";
  return fmt::format("{} cannot be compared with a string",
                     value.has_type() ? value.type_name : "a number");
}

} // namespace

std::int64_t order_float(double number, std::uint32_t size) {
  if (size == sizeof(float)) {
    // Halfway to what would be the next number: from there on it is rounded to infinity.
    constexpr double most = std::numeric_limits<float>::max();
    constexpr double infinite = 0x1.ffffffp127;
    const double absolute = std::abs(number);
    const double limited = absolute >= infinite ? HUGE_VAL : std::min(absolute, most);
    const auto rounded =
        static_cast<float>(std::isnan(number) ? number : std::copysign(limited, number));
    const std::int64_t bits = std::bit_cast<std::int32_t>(rounded);
    return rounded == 0 ? 0 : bits < 0 ? bits ^ INT64_MAX : bits; // zero of both signs
  }
  const auto bits = std::bit_cast<std::int64_t>(number);
  return number == 0 ? 0 : bits < 0 ? bits ^ INT64_MAX : bits;
}

ValueUse use_of(const ConditionSpec& spec) {
  if (spec.comparison != Comparison::matches) return ValueUse::number;
  return spec.compares_bytes() ? ValueUse::bytes : ValueUse::text;
}

ConditionResult<PreparedTerm> compile_condition(const ConditionSpec& spec, ComparedValue value) {
  if (const ValueUse wanted = use_of(spec); wanted != value.kind) {
    Error error{ErrorKind::usage, describe_mismatch(wanted, value)};
    if (!spec.first_text.empty()) error = std::move(error).within(spec.first_text);
    return wrong_at(spec.constant_at, std::move(error));
  }
  PreparedTerm made{.term = {.value = value.value}, .length = value.length, .offset = value.offset};
  made.term.comparison = static_cast<record_u8>(number_of(spec.comparison));
  switch (value.kind) {
  case ValueUse::number:
    return compare_number(spec, std::move(made), value);
  case ValueUse::bytes:
    return compare_bytes(spec, std::move(made), value);
  case ValueUse::text:
    break;
  }
  return made;
}

} // namespace uprobectl
