// SPDX-License-Identifier: Apache-2.0
#include "usdt/operands.hpp"

#include "elf/dynamic_table.hpp"
#include "elf/layout.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::usdt {

namespace {

// A character of a symbol's name in GNU as (manual, "Symbol Names"), including non-ASCII letters.
bool is_symbol_character(char c) {
  return in_ascii_identifier(c) || c == '.' || c == '$' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

std::string_view take_name(std::string_view& text) {
  std::size_t size = 0;
  while (size < text.size() && is_symbol_character(text[size])) ++size;
  const std::string_view name = text.substr(0, size);
  text.remove_prefix(size);
  return name;
}

std::optional<std::uint64_t> parse_integer_term(std::string_view digits) {
  const bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
  if (hexadecimal) digits.remove_prefix(2);
  return parse_number<std::uint64_t>(digits, hexadecimal ? 16 : 10);
}

bool add_number(AsmExpression& expression, std::string_view digits, bool negative) {
  const auto value = parse_integer_term(digits);
  constexpr std::uint64_t lowest = std::uint64_t{1} << 63;
  if (!value || (negative && *value > lowest)) return false;
  expression.number += negative ? 0 - *value : *value;
  return true;
}

bool is_shared_library(const elf::Image& image) {
  const auto layout = elf::read_layout(image.bytes());
  const auto dynamic = layout ? elf::read_dynamic(*layout) : std::nullopt;
  return dynamic && *dynamic && !layout->is_fixed && !(**dynamic).is_program;
}

} // namespace

std::optional<AsmExpression> take_expression(std::string_view& text) {
  AsmExpression expression;
  for (bool first = true;; first = false) {
    const bool signed_term = text.starts_with('+') || text.starts_with('-');
    if (!first && !signed_term) return expression;
    const bool negative = text.starts_with('-');
    if (signed_term) text.remove_prefix(1);
    const std::string_view name = take_name(text);
    if (name.empty()) return std::nullopt;
    if (is_ascii_digit(name.front())) {
      if (!add_number(expression, name, negative)) return std::nullopt;
      continue;
    }
    if (negative || !expression.symbol.empty()) return std::nullopt;
    expression.symbol = name;
    if (!text.starts_with('@')) continue;
    text.remove_prefix(1);
    expression.relocation = take_name(text);
    if (expression.relocation.empty()) return std::nullopt;
  }
}

std::optional<AsmExpression> parse_expression(std::string_view text) {
  const auto expression = take_expression(text);
  return text.empty() ? expression : std::nullopt;
}

std::optional<std::uint64_t> parse_constant_expression(std::string_view text) {
  const auto expression = parse_expression(text);
  if (!expression || !expression->symbol.empty()) return std::nullopt;
  return expression->number;
}

std::optional<AddressParts> split_at_commas(std::string_view text) {
  AddressParts split;
  while (split.count < split.parts.size()) {
    const auto comma = text.find(',');
    split.parts[split.count++] = trimmed(text.substr(0, comma), operand_blanks);
    if (comma == std::string_view::npos) return split;
    text.remove_prefix(comma + 1);
  }
  return std::nullopt;
}

void leave_unparsed(StaticArgument& argument, std::string problem) {
  argument.kind = StaticArgument::Kind::unparsed;
  argument.problem = std::move(problem);
}

void leave_unparsed(StaticArgument& argument) { leave_unparsed(argument, "unsupported operand"); }

std::optional<SymbolAddresses::Location> resolve_symbol(const AsmExpression& expression,
                                                        SymbolAddresses& symbols,
                                                        StaticArgument& argument) {
  auto location = symbols.find(expression.symbol);
  if (!location) {
    leave_unparsed(argument, std::move(location).error());
    return std::nullopt;
  }
  argument.may_be_static = location->may_be_static;
  const std::uint64_t address = location->address.value + expression.number;
  location->address.value = symbols.image().machine().is_64bit ? address : address & 0xffffffff;
  return *location;
}

void set_constant(StaticArgument& argument, const AsmExpression& expression,
                  SymbolAddresses& symbols) {
  if (!expression.relocation.empty()) {
    leave_unparsed(argument, fmt::format("unsupported relocation '@{}'", expression.relocation));
    return;
  }
  argument.constant = expression.number;
  if (!expression.symbol.empty()) {
    const auto location = resolve_symbol(expression, symbols, argument);
    argument.constant = location ? location->address.value : 0;
    if (!location) return;
    if (!location->absolute) argument.address = location->address;
  }
  argument.kind = StaticArgument::Kind::constant;
}

void set_memory_at(StaticArgument& argument, const AsmExpression& expression,
                   SymbolAddresses& symbols) {
  std::uint64_t displacement = expression.number;
  if (!expression.symbol.empty()) {
    const auto location = resolve_symbol(expression, symbols, argument);
    if (!location) return;
    displacement = location->absolute ? location->address.value : 0;
    if (!location->absolute) argument.address = location->address;
  }
  argument.displacement = static_cast<std::int64_t>(displacement);
  argument.kind = StaticArgument::Kind::in_memory;
}

void SymbolAddresses::add(const elf::Symbol& symbol) {
  // `strip -x` keeps the symbols of files, and .gnu_debugdata has functions only.
  has_local_symbols_ =
      has_local_symbols_ ||
      (symbol.binding == elf::Binding::local && symbol.table != elf::Table::gnu_debugdata &&
       (symbol.type == elf::SymbolType::object || symbol.type == elf::SymbolType::function));
  if (symbol.name.empty() || symbol.type == elf::SymbolType::section ||
      symbol.type == elf::SymbolType::file)
    return;
  const NamedSymbol fresh{.location = {symbol.address, symbol.absolute},
                          .imported = !symbol.defined,
                          .function = symbol.type == elf::SymbolType::function,
                          .local = symbol.binding == elf::Binding::local,
                          .is_thread_local = symbol.type == elf::SymbolType::tls};
  const auto [at, is_new] = by_name_.try_emplace(symbol.name, fresh);
  if (is_new || fresh.imported) return;
  if (at->second.imported || (at->second.function && !fresh.function))
    at->second = fresh;
  else if (at->second.function == fresh.function && at->second.location.address != symbol.address)
    at->second.ambiguous = true;
}

// Reads whole tables, because each of thousands of probes may name another symbol.
void SymbolAddresses::read_tables() {
  if (std::exchange(read_, true)) return;
  is_library_ = is_shared_library(image_);
  const auto read = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index)
      if (const auto symbol = table.at(index)) add(*symbol);
  };
  if (const auto table = image_.dynamic_symbols()) read(*table);
  if (const auto table = image_.full_symbols()) read(*table);
  for (const elf::SymbolTable& table : image_.debug_symbols()) read(table);
}

std::expected<SymbolAddresses::Location, std::string> SymbolAddresses::find(std::string_view name) {
  read_tables();
  const auto found = by_name_.find(name);
  missing_ = missing_ || found == by_name_.end() || found->second.imported || !has_local_symbols_;
  if (found == by_name_.end())
    return std::unexpected(fmt::format("the file has no symbol '{}'", name));
  if (found->second.imported)
    return std::unexpected(fmt::format("'{}' is defined in another file", name));
  if (found->second.is_thread_local)
    return std::unexpected(fmt::format("'{}' is thread-local", name));
  if (found->second.ambiguous)
    return std::unexpected(fmt::format("the file has several symbols '{}'", name));
  Location location = found->second.location;
  location.may_be_static = !has_local_symbols_ && !found->second.local;
  if (location.may_be_static && is_library_)
    return std::unexpected(
        fmt::format("'{}' may be a static variable, whose symbol was stripped", name));
  return location;
}

namespace {

// sys/sdt.h makes at most 12.
constexpr std::size_t max_operands = 32;

// Removes the next operand from the text. Operands are separated by blanks, except inside brackets
// ("-4@[sp, 12]").
std::string_view take_operand(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(operand_blanks), text.size()));
  std::size_t open = 0;
  std::size_t size = 0;
  for (; size < text.size(); ++size) {
    const char c = text[size];
    if (c == '[' || c == '(') ++open;
    if ((c == ']' || c == ')') && open > 0) --open;
    if (open == 0 && (c == ' ' || c == '\t')) break;
  }
  const std::string_view operand = trimmed(text.substr(0, size), operand_blanks);
  text.remove_prefix(size);
  return operand;
}

// Removes the size, "-4@" or "8f@": bytes, with '-' for signed and 'f' for floating-point numbers
// (systemtap's sys/sdt.h, _SDT_ARG). Does nothing if the text has no size.
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

StaticArgument parse_operand(std::string_view operand, SymbolAddresses& symbols) {
  StaticArgument argument{.raw = std::string(operand)};
  take_size(operand, argument);
  const elf::Machine& machine = symbols.image().machine();
  argument.width = machine.is_64bit ? 8 : 4;
  if (const auto parse = parser_for(machine))
    parse(operand, symbols, argument);
  else
    leave_unparsed(argument, fmt::format("operands of {} are not supported", to_string(machine)));
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
  if (text == ":") return arguments; // dtrace writes this for a probe without arguments
  const auto sizes = static_cast<std::size_t>(std::ranges::count(text, '@'));
  arguments.reserve(std::min(sizes, max_operands));
  while (true) {
    const std::string_view rest = trimmed(text, operand_blanks);
    const std::string_view operand = take_operand(text);
    if (operand.empty()) return arguments;
    if (arguments.size() + 1 == max_operands && !trimmed(text, operand_blanks).empty()) {
      StaticArgument last{.raw = std::string(rest)};
      leave_unparsed(last, fmt::format("more than {} operands", max_operands));
      arguments.push_back(std::move(last));
      return arguments;
    }
    arguments.push_back(parse_operand(operand, symbols));
  }
}

std::vector<StaticArgument> parse_static_arguments(std::string_view text, const elf::Image& image) {
  SymbolAddresses symbols(image);
  return parse_static_arguments(text, symbols);
}

} // namespace uprobectl::usdt
