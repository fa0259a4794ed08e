#include "usdt/arguments.hpp"

#include "base/numbers.hpp"
#include "usdt/sum.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

// Far more than are met: sys/sdt.h makes up to 12.
constexpr std::size_t most_operands = 32;

// Takes the next operand: blanks separate them, but not inside brackets ("-4@[sp, 12]").
std::string_view take_operand(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::size_t open = 0;
  std::size_t size = 0;
  for (; size < text.size(); ++size) {
    const char c = text[size];
    if (c == '[' || c == '(') ++open;
    if ((c == ']' || c == ')') && open > 0) --open;
    if (open == 0 && (c == ' ' || c == '\t')) break;
  }
  const std::string_view operand = trimmed(text.substr(0, size));
  text.remove_prefix(size);
  return operand;
}

// Takes "-4@", "8f@": the size in bytes, with a sign for signed and an "f" for floating point
// numbers (systemtap's sys/sdt.h, _SDT_ARG). What has no size is left as it is.
void take_size(std::string_view& text, StaticArgument& argument) {
  std::string_view rest = text;
  const bool is_signed = rest.starts_with('-');
  if (is_signed) rest.remove_prefix(1);
  const auto size = take_number<std::uint32_t>(rest);
  if (!size || *size == 0) return;
  const bool is_float = rest.starts_with('f');
  if (is_float) rest.remove_prefix(1);
  if (!rest.starts_with('@')) return;
  rest.remove_prefix(1);
  argument.size = *size;
  argument.is_signed = is_signed;
  argument.is_float = is_float;
  text = rest;
}

using OperandParser = void (*)(std::string_view text, SymbolAddresses& symbols,
                               StaticArgument& argument);

OperandParser parser_for(const elf::Machine& machine) {
  if (machine.arch == Arch::x86_64 || machine.arch == Arch::i386) return parse_x86_operand;
  if (machine.arch == Arch::arm64) return parse_arm64_operand;
  if (machine.arch == Arch::arm) return parse_arm_operand;
  return nullptr;
}

StaticArgument argument_of(std::string_view operand, SymbolAddresses& symbols) {
  StaticArgument argument{.raw = std::string(operand)};
  take_size(operand, argument);
  const elf::Machine& machine = symbols.image().machine();
  argument.width = machine.is_64bit ? 8 : 4;
  if (const auto parse = parser_for(machine))
    parse(operand, symbols, argument);
  else
    leave_unparsed(argument,
                   fmt::format("how {} writes operands is not known here", to_string(machine)));
  return argument;
}

} // namespace

std::string_view to_string(StaticArgument::Kind kind) {
  switch (kind) {
  case StaticArgument::Kind::constant:
    return "constant";
  case StaticArgument::Kind::in_register:
    return "register";
  case StaticArgument::Kind::in_memory:
    return "memory";
  case StaticArgument::Kind::out_of_reach:
    return "out_of_reach";
  case StaticArgument::Kind::unparsed:
    return "unparsed";
  }
  return {};
}

bool can_parse_static_arguments(const elf::Machine& machine) {
  return parser_for(machine) != nullptr;
}

std::vector<StaticArgument> parse_static_arguments(std::string_view text,
                                                   SymbolAddresses& symbols) {
  std::vector<StaticArgument> arguments;
  if (text == ":") return arguments; // what dtrace writes for none
  const auto marks = static_cast<std::size_t>(std::ranges::count(text, '@')); // one a size
  arguments.reserve(std::min(marks, most_operands));
  while (true) {
    const std::string_view rest = trimmed(text);
    const std::string_view operand = take_operand(text);
    if (operand.empty()) return arguments;
    if (arguments.size() + 1 == most_operands && !trimmed(text).empty()) {
      StaticArgument unread{.raw = std::string(rest)};
      leave_unparsed(unread, fmt::format("more than {} operands", most_operands));
      arguments.push_back(std::move(unread));
      return arguments;
    }
    arguments.push_back(argument_of(operand, symbols));
  }
}

std::vector<StaticArgument> parse_static_arguments(std::string_view text, const elf::Image& image) {
  SymbolAddresses symbols(image);
  return parse_static_arguments(text, symbols);
}

} // namespace uprobectl
