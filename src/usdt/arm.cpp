// SPDX-License-Identifier: Apache-2.0
// Operands of arm64, below, and of 32-bit ARM: "r0", "#5", "[r7, #-4]", "[r0, r1, lsl #2]",
// ".L5+4".
#include "usdt/operands.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

using Kind = StaticArgument::Kind;

std::optional<std::string> arm_register(std::string_view name) {
  auto found = arch_info(Arch::arm).operand_register(name);
  return found ? std::optional(std::move(found->whole)) : std::nullopt;
}

// Whether it is a register that the kernel does not save for a probe; the argument then says so.
bool set_unsaved(std::string_view name, Arch arch, StaticArgument& argument) {
  const auto what = arch_info(arch).unsaved_register(name);
  if (!what) return false;
  argument.kind = Kind::out_of_reach;
  argument.base = name;
  argument.problem = fmt::format("a BPF program is not given the {} '{}'", *what, name);
  return true;
}

// "lsl #2"
std::optional<std::uint32_t> arm_scale(std::string_view text) {
  if (!text.starts_with("lsl")) return std::nullopt;
  std::string_view amount = trimmed(text.substr(3), operand_blanks);
  if (amount.starts_with('#')) amount.remove_prefix(1);
  const auto shift = whole_number(amount);
  if (!shift || *shift > 3) return std::nullopt;
  return 1U << *shift;
}

// What stands between the brackets.
void set_arm_memory(std::string_view text, StaticArgument& argument) {
  const auto split = split_at_commas(text);
  if (!split) return leave_unparsed(argument);
  const auto& [parts, count] = *split;
  const auto base = arm_register(parts[0]);
  if (!base) return leave_unparsed(argument);
  if (*base == "pc")
    return leave_unparsed(argument, "from which instruction 'pc' counts is not known");
  if (const auto index = arm_register(parts[1])) {
    const auto scale = parts[2].empty() ? std::optional(1U) : arm_scale(parts[2]);
    if (!scale) return leave_unparsed(argument);
    argument.index = *index;
    argument.scale = *scale;
  } else if (count > 1) {
    std::string_view offset = parts[1];
    if (offset.starts_with('#')) offset.remove_prefix(1);
    const auto number = whole_number(offset);
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
  if (set_unsaved(text, Arch::arm, argument)) return;
  const bool marked = text.starts_with('#');
  const auto sum = whole_sum(marked ? text.substr(1) : text);
  if (!sum || !sum->relocation.empty()) return leave_unparsed(argument);
  if (marked || sum->symbol.empty()) return set_constant(argument, *sum, symbols);
  set_memory_at(argument, *sum, symbols); // of the literal pool
}

// Operands of arm64: "x0", "w0", "5", "[sp, 12]", "[x0, w1, sxtw 2]", "[x21, #:lo12:counter]".

namespace {

using Kind = StaticArgument::Kind;
using IndexPart = StaticArgument::IndexPart;

std::optional<OperandRegister> arm64_register(std::string_view name) {
  return arch_info(Arch::arm64).operand_register(name);
}

bool is_whole(const OperandRegister& named) { return named.bits == 64; }

std::string_view without_hash(std::string_view text) {
  if (text.starts_with('#')) text.remove_prefix(1);
  return text;
}

// "lsl 3", "sxtw #2", "sxtw": what is done to the index before it is added.
bool set_extension(std::string_view text, StaticArgument& argument) {
  const std::string_view word = text.substr(0, text.find_first_of(" \t#"));
  const std::string_view amount = without_hash(trimmed(text.substr(word.size()), operand_blanks));
  const bool of_word = word == "sxtw" || word == "uxtw";
  if (!of_word && word != "lsl" && word != "sxtx") return false;
  if (of_word != (argument.index_part == IndexPart::low_word)) return false;
  if (word == "sxtw") argument.index_part = IndexPart::signed_low_word;
  if (amount.empty()) return word != "lsl";
  const auto shift = whole_number(amount);
  if (!shift || *shift > 3) return false;
  argument.scale = 1U << *shift;
  return true;
}

// "[x0, x1]", "[x0, w1, sxtw 2]"
bool set_index(std::string_view name, std::string_view extension, StaticArgument& argument) {
  auto index = arm64_register(name);
  if (!index || index->whole.empty() || index->whole == "sp") return false;
  const bool is_64bit = is_whole(*index);
  argument.index = std::move(index->whole);
  argument.index_part = is_64bit ? IndexPart::whole : IndexPart::low_word;
  if (extension.empty()) return is_64bit;
  return set_extension(extension, argument);
}

// "[x21, #:lo12:counter+4]": the register has the address of the page (ADRP).
void set_on_page(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument) {
  const auto sum = whole_sum(text);
  if (!sum || sum->symbol.empty()) return leave_unparsed(argument);
  argument.base.clear();
  set_memory_at(argument, *sum, symbols);
}

// What stands between the brackets.
void set_arm64_memory(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument) {
  const auto split = split_at_commas(text);
  if (!split) return leave_unparsed(argument);
  const auto& [parts, count] = *split;
  auto base = arm64_register(parts[0]);
  if (!base || !is_whole(*base) || base->whole.empty()) return leave_unparsed(argument);
  const std::string_view offset = without_hash(parts[1]);
  constexpr std::string_view low_bits = ":lo12:";
  if (offset.starts_with(low_bits) && count == 2)
    return set_on_page(offset.substr(low_bits.size()), symbols, argument);
  if (offset.starts_with(':'))
    return leave_unparsed(argument, fmt::format("'{}' is not understood", parts[1]));
  if (arm64_register(parts[1])) {
    if (!set_index(parts[1], parts[2], argument)) return leave_unparsed(argument);
  } else if (count > 1) {
    const auto number = whole_number(offset);
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
  if (set_unsaved(text, Arch::arm64, argument)) return;
  const auto number = whole_number(without_hash(text));
  if (!number) return leave_unparsed(argument);
  argument.kind = Kind::constant;
  argument.constant = *number;
}

} // namespace uprobectl
