#include "events/words.hpp"

#include <array>

namespace uprobectl {

namespace {

struct Sign {
  std::string_view text;
  Comparison comparison;
};
// The longer ones first.
constexpr std::array signs = {
    Sign{"==", Comparison::equal},   Sign{"!=", Comparison::not_equal},
    Sign{"<=", Comparison::at_most}, Sign{">=", Comparison::at_least},
    Sign{"<", Comparison::less},     Sign{">", Comparison::more},
    Sign{"&", Comparison::has_bits},
};

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Error no_condition(std::string_view text, std::string_view what) {
  return Error{ErrorKind::usage, in_quotes(text) + " is no condition: " + std::string(what)}.hint(
      "conditions read 'arg1==3', 'ret<0' or 'flags&0x40'; operators are == != < <= > >= &");
}

Result<void> parse_value(std::string_view whole, std::string_view text, ConditionSpec& condition) {
  const auto colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    const auto type = parse_type_name(text.substr(colon + 1));
    if (!type) return fail(no_condition(whole, in_quotes(text.substr(colon + 1)) + " is no type"));
    if (is_memory(*type)) return fail(no_condition(whole, "only integers are compared"));
    condition.type = type;
  }
  // A register, too, unless an argument has its name.
  auto source = parse_source_name(name);
  if (source && source->kind != ArgumentSource::Kind::machine_register)
    condition.source = std::move(*source);
  else if (is_name(name))
    condition.name = name;
  else
    return fail(no_condition(whole, "nothing to compare before the operator"));
  return {};
}

} // namespace

Result<ConditionSpec> parse_condition(std::string_view text) {
  ConditionSpec condition;
  condition.text = text;
  const auto at = text.find_first_of("=!<>&");
  if (at == std::string_view::npos) return fail(no_condition(text, "it has no operator"));
  const Sign* sign = nullptr;
  for (const Sign& each : signs)
    if (sign == nullptr && text.substr(at).starts_with(each.text)) sign = &each;
  if (sign == nullptr) return fail(no_condition(text, "equality is written '=='"));
  condition.comparison = sign->comparison;
  if (auto value = parse_value(text, trimmed(text.substr(0, at)), condition); !value)
    return fail(std::move(value).error());
  std::string_view number = trimmed(text.substr(at + sign->text.size()));
  condition.negative = number.starts_with('-');
  if (condition.negative) number.remove_prefix(1);
  const auto magnitude = parse_unsigned(number);
  if (!magnitude || (condition.negative && *magnitude > std::uint64_t{1} << 63))
    return fail(no_condition(text, "behind the operator a number is needed"));
  condition.magnitude = *magnitude;
  condition.negative = condition.negative && *magnitude != 0;
  return condition;
}

} // namespace uprobectl
