// SPDX-License-Identifier: Apache-2.0
// Parsers for the operands of x86, arm64 and 32-bit ARM. Each takes the text after the '@' of a
// static probe's argument, as GNU as and clang write it.
#include "usdt/operands.hpp"

#include <fmt/format.h>

namespace uprobectl::usdt {

namespace {

using Kind = StaticArgument::Kind;
using IndexPart = StaticArgument::IndexPart;

// Marks the argument as out of reach if NAME is a register that the kernel does not save when a
// probe is hit. Returns whether it is one.
bool set_unsaved(std::string_view name, const ArchInfo& arch, StaticArgument& argument) {
  const auto what = arch.unsaved_register(name);
  if (!what) return false;
  argument.kind = Kind::out_of_reach;
  argument.base = name;
  argument.problem = fmt::format("a BPF program cannot read the {} '{}'", *what, name);
  return true;
}

// --- x86-64 and i386, AT&T syntax: "%rax", "$-5", "-20(%rbp,%rax,4)", "counter+4(%rip)",
// "x@GOTOFF(%ebx)".

// x86-64 or i386, as the image is.
const ArchInfo& arch_of(const SymbolAddresses& symbols) { return symbols.image().machine().info(); }

// NAME is the whole operand, without its '%'.
void set_x86_register(std::string_view name, const ArchInfo& arch, StaticArgument& argument) {
  if (auto found = arch.operand_register(name)) {
    argument.kind = Kind::in_register;
    argument.base = std::move(found->whole);
    argument.shift = found->shift;
    argument.width = found->bits / 8;
    return;
  }
  if (set_unsaved(name, arch, argument)) return;
  leave_unparsed(argument, fmt::format("unknown register '{}'", name));
}

// "%fs:…" and "%gs:…" address the thread control block.
bool is_thread_local(std::string_view text) {
  return text.starts_with("%fs:") || text.starts_with("%gs:");
}

void set_thread_local(StaticArgument& argument) {
  argument.kind = Kind::out_of_reach;
  argument.problem = "a BPF program cannot read thread-local memory";
}

// The registers of an address, "(%rbp,%rcx,4)".
struct AddressRegisters {
  std::string base;  // may be empty
  std::string index; // may be empty
  std::uint32_t scale = 1;
};

// Parses the register of an address, "%rax". Returns "" for an empty text, nullopt if the text is
// not a register that can address memory.
std::optional<std::string> address_register(std::string_view text, const ArchInfo& arch) {
  if (text.empty()) return std::string();
  if (!text.starts_with('%')) return std::nullopt;
  auto found = arch.operand_register(text.substr(1));
  if (!found || found->bits < 32) return std::nullopt;
  return std::move(found->whole);
}

// Parses the text between the brackets: "%rbp", "%rax,%rbx,4", ",%rax,8".
std::optional<AddressRegisters> parse_address_registers(std::string_view text,
                                                        const ArchInfo& arch) {
  const auto split = split_at_commas(text);
  if (!split) return std::nullopt;
  const auto& parts = split->parts;
  auto base = address_register(parts[0], arch);
  auto index = address_register(parts[1], arch);
  if (!base || !index || (base->empty() && index->empty())) return std::nullopt;
  AddressRegisters registers{.base = std::move(*base), .index = std::move(*index)};
  if (parts[2].empty()) return registers;
  const auto scale = parse_constant_expression(parts[2]);
  if (!scale || registers.index.empty() ||
      (*scale != 1 && *scale != 2 && *scale != 4 && *scale != 8))
    return std::nullopt;
  registers.scale = static_cast<std::uint32_t>(*scale);
  return registers;
}

void set_registers(StaticArgument& argument, AddressRegisters registers) {
  argument.kind = Kind::in_memory;
  argument.base = std::move(registers.base);
  argument.index = std::move(registers.index);
  argument.scale = registers.scale;
}

// Sets "x@GOTOFF(%ebx)", where the register holds the address of the GOT.
void set_from_got(const AsmExpression& expression, AddressRegisters registers,
                  SymbolAddresses& symbols, StaticArgument& argument) {
  const auto location = resolve_symbol(expression, symbols, argument);
  if (!location) return;
  const auto got = symbols.image().got();
  if (!got) {
    leave_unparsed(argument, "the file does not say where its GOT is");
    return;
  }
  argument.displacement = static_cast<std::int64_t>(location->address.value - got->value);
  set_registers(argument, std::move(registers));
}

void set_symbol_memory(const AsmExpression& expression, AddressRegisters registers,
                       SymbolAddresses& symbols, StaticArgument& argument) {
  const bool from_ip = registers.base == "rip" || registers.base == "eip";
  if (from_ip && registers.index.empty()) {
    set_memory_at(argument, expression, symbols);
    return;
  }
  if (from_ip || (!registers.base.empty() && !registers.index.empty())) {
    leave_unparsed(argument, "unsupported symbol address with two registers");
    return;
  }
  // The symbol's address becomes the base, so the register becomes the index.
  set_memory_at(argument, expression, symbols);
  if (argument.kind != Kind::in_memory) return;
  argument.index = registers.base.empty() ? std::move(registers.index) : std::move(registers.base);
  argument.scale = registers.scale;
}

void set_memory(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument) {
  AsmExpression expression;
  if (!text.starts_with('(')) {
    const auto taken = take_expression(text);
    if (!taken) return leave_unparsed(argument);
    expression = *taken;
  }
  if (expression.relocation.ends_with("TPOFF")) return set_thread_local(argument);
  std::optional<AddressRegisters> registers;
  if (!text.empty()) {
    if (!text.starts_with('(') || !text.ends_with(')')) return leave_unparsed(argument);
    registers = parse_address_registers(text.substr(1, text.size() - 2), arch_of(symbols));
    if (!registers) return leave_unparsed(argument);
  }
  if (expression.relocation == "GOTOFF" && registers)
    return set_from_got(expression, std::move(*registers), symbols, argument);
  if (!expression.relocation.empty())
    return leave_unparsed(argument,
                          fmt::format("unsupported relocation '@{}'", expression.relocation));
  if (!registers) return set_memory_at(argument, expression, symbols);
  if (!expression.symbol.empty())
    return set_symbol_memory(expression, std::move(*registers), symbols, argument);
  argument.displacement = static_cast<std::int64_t>(expression.number);
  set_registers(argument, std::move(*registers));
}

} // namespace

void parse_x86_operand(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument) {
  if (is_thread_local(text)) return set_thread_local(argument);
  if (text.starts_with('%')) return set_x86_register(text.substr(1), arch_of(symbols), argument);
  if (!text.starts_with('$')) return set_memory(text, symbols, argument);
  const auto expression = parse_expression(text.substr(1));
  if (!expression) return leave_unparsed(argument);
  set_constant(argument, *expression, symbols);
}

// --- 32-bit ARM: "r0", "#5", "[r7, #-4]", "[r0, r1, lsl #2]", ".L5+4".

namespace {

std::optional<std::string> arm_register(std::string_view name) {
  auto found = arch_info(Arch::arm).operand_register(name);
  return found ? std::optional(std::move(found->whole)) : std::nullopt;
}

// Parses the shift of an index, "lsl #2", as the factor that it stands for.
std::optional<std::uint32_t> arm_scale(std::string_view text) {
  if (!text.starts_with("lsl")) return std::nullopt;
  std::string_view amount = trimmed(text.substr(3), operand_blanks);
  if (amount.starts_with('#')) amount.remove_prefix(1);
  const auto shift = parse_constant_expression(amount);
  if (!shift || *shift > 3) return std::nullopt;
  return 1U << *shift;
}

// Sets the text between the brackets.
void set_arm_memory(std::string_view text, StaticArgument& argument) {
  const auto split = split_at_commas(text);
  if (!split) return leave_unparsed(argument);
  const auto& [parts, count] = *split;
  const auto base = arm_register(parts[0]);
  if (!base) return leave_unparsed(argument);
  if (*base == "pc") return leave_unparsed(argument, "unsupported base register 'pc'");
  if (const auto index = arm_register(parts[1])) {
    const auto scale = parts[2].empty() ? std::optional(1U) : arm_scale(parts[2]);
    if (!scale) return leave_unparsed(argument);
    argument.index = *index;
    argument.scale = *scale;
  } else if (count > 1) {
    std::string_view offset = parts[1];
    if (offset.starts_with('#')) offset.remove_prefix(1);
    const auto number = parse_constant_expression(offset);
    if (!number || count > 2) return leave_unparsed(argument);
    argument.displacement = static_cast<std::int64_t>(*number);
  }
  argument.kind = Kind::in_memory;
  argument.base = *base;
}

} // namespace

void parse_arm_operand(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument) {
  if (text.starts_with('[') && text.ends_with(']'))
    return set_arm_memory(text.substr(1, text.size() - 2), argument);
  if (const auto found = arm_register(text)) {
    argument.kind = Kind::in_register;
    argument.base = *found;
    return;
  }
  if (set_unsaved(text, arch_info(Arch::arm), argument)) return;
  const bool marked = text.starts_with('#');
  const auto expression = parse_expression(marked ? text.substr(1) : text);
  if (!expression || !expression->relocation.empty()) return leave_unparsed(argument);
  if (marked || expression->symbol.empty()) return set_constant(argument, *expression, symbols);
  set_memory_at(argument, *expression, symbols); // a label of the literal pool
}

// --- arm64: "x0", "w0", "5", "[sp, 12]", "[x0, w1, sxtw 2]", "[x21, #:lo12:counter]".

namespace {

std::optional<OperandRegister> arm64_register(std::string_view name) {
  return arch_info(Arch::arm64).operand_register(name);
}

bool is_full_width(const OperandRegister& named) { return named.bits == 64; }

std::string_view without_hash(std::string_view text) {
  if (text.starts_with('#')) text.remove_prefix(1);
  return text;
}

// Sets how the index is extended and shifted before it is added: "lsl 3", "sxtw #2", "sxtw".
// Returns false if the text is not a valid extension for this index.
bool set_extension(std::string_view text, StaticArgument& argument) {
  const std::string_view word = text.substr(0, text.find_first_of(" \t#"));
  const std::string_view amount = without_hash(trimmed(text.substr(word.size()), operand_blanks));
  const bool extends_word = word == "sxtw" || word == "uxtw";
  if (!extends_word && word != "lsl" && word != "sxtx") return false;
  if (extends_word != (argument.index_part == IndexPart::low_word)) return false;
  if (word == "sxtw") argument.index_part = IndexPart::signed_low_word;
  if (amount.empty()) return word != "lsl";
  const auto shift = parse_constant_expression(amount);
  if (!shift || *shift > 3) return false;
  argument.scale = 1U << *shift;
  return true;
}

// Sets the index of "[x0, x1]" or "[x0, w1, sxtw 2]". Returns false if it is not valid.
bool set_index(std::string_view name, std::string_view extension, StaticArgument& argument) {
  auto index = arm64_register(name);
  if (!index || index->whole.empty() || index->whole == "sp") return false;
  const bool is_64bit = is_full_width(*index);
  argument.index = std::move(index->whole);
  argument.index_part = is_64bit ? IndexPart::whole : IndexPart::low_word;
  if (extension.empty()) return is_64bit;
  return set_extension(extension, argument);
}

// Sets "[x21, #:lo12:counter+4]", where the register holds the address of the symbol's page (ADRP).
void set_low_bits_memory(std::string_view text, SymbolAddresses& symbols,
                         StaticArgument& argument) {
  const auto expression = parse_expression(text);
  if (!expression || expression->symbol.empty()) return leave_unparsed(argument);
  argument.base.clear();
  set_memory_at(argument, *expression, symbols);
}

// Sets the text between the brackets.
void set_arm64_memory(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument) {
  const auto split = split_at_commas(text);
  if (!split) return leave_unparsed(argument);
  const auto& [parts, count] = *split;
  auto base = arm64_register(parts[0]);
  if (!base || !is_full_width(*base) || base->whole.empty()) return leave_unparsed(argument);
  const std::string_view offset = without_hash(parts[1]);
  constexpr std::string_view low_bits = ":lo12:";
  if (offset.starts_with(low_bits) && count == 2)
    return set_low_bits_memory(offset.substr(low_bits.size()), symbols, argument);
  if (offset.starts_with(':'))
    return leave_unparsed(argument, fmt::format("unsupported relocation '{}'", parts[1]));
  if (arm64_register(parts[1])) {
    if (!set_index(parts[1], parts[2], argument)) return leave_unparsed(argument);
  } else if (count > 1) {
    const auto number = parse_constant_expression(offset);
    if (!number || count > 2) return leave_unparsed(argument);
    argument.displacement = static_cast<std::int64_t>(*number);
  }
  argument.kind = Kind::in_memory;
  argument.base = std::move(base->whole);
}

} // namespace

void parse_arm64_operand(std::string_view text, SymbolAddresses& symbols,
                         StaticArgument& argument) {
  if (text.starts_with('[') && text.ends_with(']'))
    return set_arm64_memory(text.substr(1, text.size() - 2), symbols, argument);
  if (auto found = arm64_register(text)) {
    argument.kind = found->whole.empty() ? Kind::constant : Kind::in_register;
    argument.width = found->bits / 8;
    argument.base = std::move(found->whole);
    return;
  }
  if (set_unsaved(text, arch_info(Arch::arm64), argument)) return;
  const auto number = parse_constant_expression(without_hash(text));
  if (!number) return leave_unparsed(argument);
  argument.kind = Kind::constant;
  argument.constant = *number;
}

} // namespace uprobectl::usdt
