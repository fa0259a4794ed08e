// SPDX-License-Identifier: Apache-2.0
#include "events/conditions.hpp"

#include "events/built_in_variables.hpp"
#include "events/library_types.hpp"
#include "events/presentation.hpp"
#include "events/readings.hpp"
#include "util/arithmetic.hpp"
#include "util/errnos.hpp"
#include "util/spelling.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace uprobectl::events {

namespace {

// Whether the spelling of a constant is that of an enumerator: "red", "Color::red",
// "shop::Color::red".
bool names_enumerator(std::string_view written, const values::Enumeration& type,
                      const std::string& enumerator) {
  if (written == enumerator) return true;
  if (!written.ends_with("::" + enumerator)) return false;
  const std::string_view scope = written.substr(0, written.size() - enumerator.size() - 2);
  const std::string_view name = type.name;
  if (name == scope || name.ends_with(fmt::format("::{}", scope))) return true;
  // An unscoped enumerator is in the scope of its enumeration: "shop::red".
  const auto outer = name.rfind("::");
  return !type.is_scoped && outer != std::string_view::npos &&
         (name.substr(0, outer) == scope ||
          name.substr(0, outer).ends_with(fmt::format("::{}", scope)));
}

Result<std::uint64_t> find_enumerator(const std::string& name, const values::ValueType& type) {
  std::vector<std::string> names;
  if (type.enumeration != nullptr)
    for (const values::Enumeration::Enumerator& each : type.enumeration->enumerators) {
      if (names_enumerator(name, *type.enumeration, each.name))
        return static_cast<std::uint64_t>(each.value);
      names.push_back(each.name);
    }
  Error error{ErrorKind::usage, names.empty() ? in_single_quotes(name) + " is not a number"
                                              : fmt::format("{} has no enumerator {}", type.name,
                                                            in_single_quotes(name))};
  if (const auto near = nearest(name.substr(name.rfind(':') + 1), names); !near.empty())
    return fail(std::move(error).hint(did_you_mean(near)));
  return fail(std::move(error));
}

double real_number(const FilterConstant& constant) {
  if (constant.real) return *constant.real;
  const auto magnitude = static_cast<double>(constant.magnitude);
  return constant.negative ? -magnitude : magnitude;
}

// Converts a time to ticks. One between two ticks becomes the one of them that keeps the order:
// "wait >= 1500us" is "wait >= 2" in milliseconds. Fails if no whole number is that time.
Result<FilterConstant> time_in_ticks(const FilterConstant& time, const values::TickPeriod& tick,
                                     const values::ValueType& type, Comparison comparison) {
  __extension__ using Wide = unsigned __int128;
  const Wide dividend = Wide{time.magnitude} * tick.denominator;
  const Wide divisor = Wide{tick.numerator} * 1'000'000'000;
  FilterConstant made{.negative = time.negative};
  if (type.is_floating) {
    made.real = static_cast<double>(dividend) / static_cast<double>(divisor);
    if (time.negative) made.real = -*made.real;
    return made;
  }
  Wide ticks = dividend / divisor;
  if (dividend % divisor != 0) {
    if (!is_order(comparison))
      return fail(
          ErrorKind::usage,
          fmt::format("it counts in {}: this time is not a whole number of them", name_unit(tick)));
    // v < c and v >= c mean the next tick above c, v > c and v <= c the next one below.
    const bool is_above = comparison == Comparison::less || comparison == Comparison::at_least;
    if (is_above != time.negative) ++ticks;
  }
  if (ticks > UINT64_MAX) return fail(ErrorKind::usage, "it cannot be as long");
  made.magnitude = static_cast<std::uint64_t>(ticks);
  made.negative = time.negative && ticks != 0;
  return made;
}

Result<std::uint64_t> find_constant(const ConditionSpec& spec, const FilterConstant& typed,
                                    const values::ValueType& type) {
  if (!typed.name.empty()) return find_enumerator(typed.name, type);
  FilterConstant constant = typed;
  if (type.tick && typed.is_time) {
    auto converted = time_in_ticks(typed, *type.tick, type, spec.comparison);
    if (!converted) return fail(std::move(converted).error());
    constant = std::move(*converted);
  }
  if (type.is_floating)
    return static_cast<std::uint64_t>(order_float(real_number(constant), type.bits / 8));
  const std::string shown = type.is_known() ? type.name : "an integer";
  if (constant.real) return fail(ErrorKind::usage, shown + " has no fraction or exponent");
  if (type.is_known() && !can_hold(type.bits, type.is_signed, spec.comparison, constant))
    return fail(ErrorKind::usage, shown + " cannot have this value");
  const std::uint64_t number = number_of(constant);
  // The constant is converted as in C: -1 becomes the largest number of an unsigned type.
  const bool is_truncated =
      constant.negative && type.is_known() && !type.is_signed && type.bits < 64;
  return is_truncated ? number & ((std::uint64_t{1} << type.bits) - 1) : number;
}

// Whether the comparison needs a sign. If the value of a register without a type can then be one of
// 32 bits with a sign, it is taken for that.
bool asks_for_sign(const ConditionSpec& spec) {
  return spec.constant.negative || (is_order(spec.comparison) && spec.constant.magnitude == 0) ||
         std::ranges::any_of(spec.members, &FilterConstant::negative);
}

ConditionResult<PreparedTerm> compare_number(const ConditionSpec& spec, PreparedTerm made,
                                             const values::ValueType& type) {
  if (type.is_floating && spec.comparison == Comparison::has_bits)
    return wrong_at(spec.constant_at, "a floating-point number has no bits to compare");
  const auto add = [&](const FilterConstant& each) -> ConditionResult<std::uint64_t> {
    auto constant = find_constant(spec, each, type);
    if (!constant) return wrong_at(spec.position_of(each), std::move(constant).error());
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
  std::ranges::sort(made.members);
  made.term.float_size = static_cast<record_u8>(type.is_floating ? type.bits / 8 : 0);
  if (spec.comparison == Comparison::has_bits) return made; // bits have no sign
  // A number that no signed value exceeds makes the comparison unsigned.
  constexpr auto largest = static_cast<std::uint64_t>(INT64_MAX);
  const bool takes_sign = spec.constant.negative || spec.constant.magnitude < largest;
  const bool is_signed = type.is_known() ? type.is_signed || type.is_floating : takes_sign;
  made.term.is_signed = is_signed ? 1 : 0;
  made.term.guess_sign = !type.is_known() && asks_for_sign(spec) ? 1 : 0;
  return made;
}

ConditionResult<PreparedTerm> compare_bytes(const ConditionSpec& spec, PreparedTerm made,
                                            const ComparedValue& value) {
  const TextPattern& pattern = spec.patterns.front();
  const std::size_t size = pattern.text.size();
  if (pattern.kind == TextPattern::Kind::exact && value.type.size != size) {
    const bool has_name = !value.length_name.empty();
    return wrong_at(
        spec.constant_at,
        Error{ErrorKind::usage, value.type.size ? fmt::format("the buffer has {} bytes, not {}",
                                                              *value.type.size, size)
                                : has_name      ? "the buffer has a length that varies"
                                                : "the length of the buffer is not known"}
            .hint("compare its first bytes with ^=" +
                  (has_name ? fmt::format(", and its length: '{} == {}'", value.length_name, size)
                            : std::string())));
  }
  if (value.type.size && *value.type.size < size)
    return wrong_at(spec.constant_at,
                    fmt::format("the buffer has only {} bytes", *value.type.size));
  made.term.value.capacity = static_cast<record_u32>(size);
  return made;
}

// Returns why a value of this type cannot be compared in the `wanted` way, and how it can be
// compared.
std::string describe_mismatch(values::ValueUse wanted, const values::ValueType& type) {
  if (wanted == values::ValueUse::bytes) return "only buffers can be compared with bytes";
  if (wanted == values::ValueUse::number)
    return type.use == values::ValueUse::text ? "it is a string: compare it with one in quotes"
                                              : "it is a buffer: compare it with hex\"DIGITS\"";
  if (type.use == values::ValueUse::bytes) return "a buffer is compared with hex\"DIGITS\"";
  return fmt::format("{} cannot be compared with a string",
                     type.is_known() ? type.name : "a number");
}

// Extends the low half with its sign.
std::uint64_t extend_low_half(std::uint64_t number) {
  return static_cast<std::uint64_t>(
      std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(number))});
}

// Whether the bits are those of a number, which NaN is not.
bool has_order(std::uint64_t bits, std::uint32_t size) {
  if (size == sizeof(float))
    return !std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return !std::isnan(std::bit_cast<double>(bits));
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

values::ValueUse use_of(const ConditionSpec& spec) {
  if (spec.comparison != Comparison::matches) return values::ValueUse::number;
  return spec.compares_bytes() ? values::ValueUse::bytes : values::ValueUse::text;
}

namespace {

// Adds a hint with the first members, if there are any.
Error list_members(Error error, std::vector<std::string> members, std::string_view whose) {
  constexpr std::size_t max_members = 24;
  if (members.empty()) return error;
  const bool is_truncated = members.size() > max_members;
  if (is_truncated) members.resize(max_members);
  return std::move(error).hint(
      fmt::format("{} members: {}{}", whose, joined(members), is_truncated ? ", …" : ""));
}

} // namespace

Error cannot_compare(values::ValueUse wanted, const values::ValueType& type) {
  const std::string_view what =
      wanted == values::ValueUse::number ? "numbers can be compared or measured"
      : wanted == values::ValueUse::text ? "strings can be compared with a text"
                                         : "buffers can be compared with bytes";
  if (!type.problem.empty()) return {ErrorKind::unsupported, type.problem};
  Error error{ErrorKind::usage, fmt::format("only {}, this is {}{}", what, type.name,
                                            type.members.empty() ? "" : ", a structure")};
  std::vector<std::string> names;
  for (const values::ValueType& each : type.members)
    if (!each.member_name.empty()) names.push_back(each.member_name);
  return list_members(std::move(error), std::move(names), "name one of its");
}

Error hint_members(Error error, std::string_view name, std::vector<std::string> members,
                   std::string_view whose) {
  if (const auto near = nearest(name, members); !near.empty())
    error = std::move(error).hint(did_you_mean(near));
  return list_members(std::move(error), std::move(members), whose);
}

Result<void> check_summed(const values::ValueType& type, std::string_view name) {
  const bool is_integer = type.use == values::ValueUse::number && !type.is_floating;
  if (is_integer && !type.is_address) return {};
  Error error{ErrorKind::usage, is_integer ? "it is an address" : "only integers can be measured"};
  if (is_integer)
    error = std::move(error).hint(
        fmt::format("name what it points to: '*{}', or a member; or declare it: --args "
                    "NAME:s32@arg0+0",
                    name));
  else if (type.use == values::ValueUse::none)
    error = cannot_compare(values::ValueUse::number, type);
  return fail(std::move(error).within(fmt::format("'{}'", name)));
}

namespace {

values::ValueType errno_type() {
  static const auto names = [] {
    values::Enumeration made{.name = "errno"};
    for (int number = 1; number <= max_errno; ++number)
      if (auto name = errno_name(number)) made.enumerators.push_back({std::move(*name), number});
    return std::make_shared<const values::Enumeration>(std::move(made));
  }();
  return {.name = "errno", .bits = 32, .is_signed = true, .enumeration = names};
}

} // namespace

values::ValueType built_in_type(filter_subject subject) {
  if (subject == COMPARE_FAILED) return {.name = "bool", .bits = 1};
  if (subject == COMPARE_ERRNO) return errno_type();
  const bool is_text = built_in_variable(subject).is_text();
  return {.use = is_text ? values::ValueUse::text : values::ValueUse::number,
          .name = "a number",
          .is_signed = true};
}

ConditionResult<PreparedTerm> compile_condition(const ConditionSpec& spec, ComparedValue value) {
  if (const values::ValueUse wanted = use_of(spec); wanted != value.type.use) {
    Error error = value.type.use == values::ValueUse::none
                      ? cannot_compare(wanted, value.type)
                      : Error{ErrorKind::usage, describe_mismatch(wanted, value.type)};
    if (!spec.first_text.empty()) error = std::move(error).within(spec.first_text);
    return wrong_at(spec.constant_at, std::move(error));
  }
  PreparedTerm made{.term = {.value = value.value}, .length = value.length, .offset = value.offset};
  made.term.comparison = static_cast<record_u8>(number_of(spec.comparison));
  switch (value.type.use) {
  case values::ValueUse::number:
    return compare_number(spec, std::move(made), value.type);
  case values::ValueUse::bytes:
    return compare_bytes(spec, std::move(made), value);
  case values::ValueUse::text:
  case values::ValueUse::none:
    break;
  }
  return made;
}

reading failure_bits(const FailureRule& rule, reading result) {
  const unsigned bits = 8U * result.size;
  result.addend += rule.addend();
  result.is_signed = 0;
  result.bit_offset = static_cast<record_u8>(rule.first_bit(bits));
  result.bit_count = static_cast<record_u8>(bits - result.bit_offset);
  return result;
}

PreparedTerm always_true() {
  PreparedTerm made;
  made.term.value.base = NO_REGISTER;
  made.term.value.size = sizeof(std::uint64_t);
  made.term.subject = COMPARE_CPU;
  made.term.comparison = IS_AT_LEAST;
  return made;
}

ConditionResult<PreparedTerm> compile_failure(const ConditionSpec& spec, const FailureRule& rule,
                                              const reading& result) {
  auto made = compile_condition(spec, {.type = built_in_type(COMPARE_FAILED)});
  if (!made) return made;
  const bool if_failed = fulfils(*made, 1);
  const bool otherwise = fulfils(*made, 0);
  PreparedTerm term;
  term.term.value = failure_bits(rule, result);
  if (if_failed == otherwise) {
    term.term.comparison = if_failed ? IS_AT_LEAST : IS_LESS; // of 0, unsigned
  } else if (rule.kind == FailureRule::Kind::less) {
    term.term.value = result;
    term.term.value.is_signed = term.term.is_signed = 1;
    term.term.constant = static_cast<std::uint64_t>(rule.number);
    term.term.comparison = if_failed ? IS_LESS : IS_AT_LEAST;
  } else {
    term.term.comparison = if_failed == rule.fails_at_zero() ? IS_EQUAL : IS_NOT_EQUAL;
  }
  return term;
}

bool fulfils(const PreparedTerm& condition, std::uint64_t number) {
  const filter_term& term = condition.term;
  if (term.float_size > 0) {
    if (!has_order(number, term.float_size)) return term.comparison == IS_NOT_EQUAL;
    number = term.float_size == sizeof(float)
                 ? static_cast<std::uint64_t>(
                       order_float(double{std::bit_cast<float>(static_cast<std::uint32_t>(number))},
                                   term.float_size))
                 : static_cast<std::uint64_t>(
                       order_float(std::bit_cast<double>(number), term.float_size));
  }
  const bool may_be_signed = term.guess_sign != 0 && number >> 32U == 0;
  if (term.comparison == IS_IN_SET) {
    const auto has = [&](std::uint64_t each) {
      return std::ranges::binary_search(condition.members, each);
    };
    return has(number) || (may_be_signed && has(extend_low_half(number)));
  }
  if (may_be_signed) number = extend_low_half(number);
  // Maps the signed order to the unsigned one.
  const std::uint64_t flip = term.is_signed != 0 ? std::uint64_t{1} << 63U : 0;
  const std::uint64_t left = number ^ flip;
  const std::uint64_t right = term.constant ^ flip;
  switch (term.comparison) {
  case IS_EQUAL:
    return left == right;
  case IS_NOT_EQUAL:
    return left != right;
  case IS_LESS:
    return left < right;
  case IS_GREATER:
    return left > right;
  case IS_AT_MOST:
    return left <= right;
  case IS_AT_LEAST:
    return left >= right;
  default: // HAS_BITS
    return (number & term.constant) != 0;
  }
}

} // namespace uprobectl::events
