// SPDX-License-Identifier: Apache-2.0
// Operands of x86: "%rax", "$5", "-8(%rbp,%rcx,4)", "counter+4(%rip)".
#include "usdt/operands.hpp"

#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

namespace {

// Operands of x86-64 and i386 as GNU as and clang write them (AT&T syntax): "%rax", "$-5",
// "-20(%rbp,%rax,4)", "counter+4(%rip)", "x@GOTOFF(%ebx)".

using Kind = StaticArgument::Kind;

// Which of x86-64 and i386.
const ArchInfo& arch_of(const SymbolAddresses& symbols) { return symbols.image().machine().info(); }

// "%NAME", all of the text.
void set_x86_register(std::string_view name, const ArchInfo& arch, StaticArgument& argument) {
  if (auto found = arch.operand_register(name)) {
    argument.kind = Kind::in_register;
    argument.base = std::move(found->whole);
    argument.shift = found->shift;
    argument.width = found->bits / 8;
    return;
  }
  if (const auto what = arch.unsaved_register(name)) {
    argument.kind = Kind::out_of_reach;
    argument.base = name;
    argument.problem = fmt::format("a BPF program is not given the {} '{}'", *what, name);
    return;
  }
  leave_unparsed(argument, fmt::format("there is no register '{}' here", name));
}

// "%fs:…"
bool is_in_thread_block(std::string_view text) {
  return text.starts_with("%fs:") || text.starts_with("%gs:");
}

void set_thread_local(StaticArgument& argument) {
  argument.kind = Kind::out_of_reach;
  argument.problem = "thread-local memory is not within reach of a BPF program";
}

struct Brackets {
  std::string base;  // empty: none
  std::string index; // empty: none
  std::uint32_t scale = 1;
};

// The register of an address, "%rax"; empty for an empty text.
std::optional<std::string> address_register(std::string_view text, const ArchInfo& arch) {
  if (text.empty()) return std::string();
  if (!text.starts_with('%')) return std::nullopt;
  auto found = arch.operand_register(text.substr(1));
  if (!found || found->bits < 32) return std::nullopt;
  return std::move(found->whole);
}

// What stands between the brackets: "%rbp", "%rax,%rbx,4", ",%rax,8".
std::optional<Brackets> parse_brackets(std::string_view text, const ArchInfo& arch) {
  const auto split = split_at_commas(text);
  if (!split) return std::nullopt;
  const auto& parts = split->parts;
  auto base = address_register(parts[0], arch);
  auto index = address_register(parts[1], arch);
  if (!base || !index || (base->empty() && index->empty())) return std::nullopt;
  Brackets brackets{.base = std::move(*base), .index = std::move(*index)};
  if (parts[2].empty()) return brackets;
  const auto scale = whole_number(parts[2]);
  if (!scale || brackets.index.empty() ||
      (*scale != 1 && *scale != 2 && *scale != 4 && *scale != 8))
    return std::nullopt;
  brackets.scale = static_cast<std::uint32_t>(*scale);
  return brackets;
}

void set_registers(StaticArgument& argument, Brackets brackets) {
  argument.kind = Kind::in_memory;
  argument.base = std::move(brackets.base);
  argument.index = std::move(brackets.index);
  argument.scale = brackets.scale;
}

// "x@GOTOFF(%ebx)": the register has the address of the GOT.
void set_from_got(const Sum& sum, Brackets brackets, SymbolAddresses& symbols,
                  StaticArgument& argument) {
  const auto place = place_of(sum, symbols, argument);
  if (!place) return;
  const auto got = symbols.image().got();
  if (!got) {
    leave_unparsed(argument, "the file does not say where its GOT is");
    return;
  }
  argument.displacement = static_cast<std::int64_t>(place->address.value - got->value);
  set_registers(argument, std::move(brackets));
}

void set_symbol_memory(const Sum& sum, Brackets brackets, SymbolAddresses& symbols,
                       StaticArgument& argument) {
  const bool from_ip = brackets.base == "rip" || brackets.base == "eip";
  if (from_ip && brackets.index.empty()) {
    set_memory_at(argument, sum, symbols);
    return;
  }
  if (from_ip || (!brackets.base.empty() && !brackets.index.empty())) {
    leave_unparsed(argument, "a symbol's address with two registers is not understood");
    return;
  }
  // The address of an array, and a register: which of the two counts as the base does not matter.
  set_memory_at(argument, sum, symbols);
  if (argument.kind != Kind::in_memory) return;
  argument.index = brackets.base.empty() ? std::move(brackets.index) : std::move(brackets.base);
  argument.scale = brackets.scale;
}

void set_memory(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument) {
  Sum sum;
  if (!text.starts_with('(')) {
    const auto taken = take_sum(text);
    if (!taken) return leave_unparsed(argument);
    sum = *taken;
  }
  if (sum.relocation.ends_with("TPOFF")) return set_thread_local(argument);
  std::optional<Brackets> brackets;
  if (!text.empty()) {
    if (!text.starts_with('(') || !text.ends_with(')')) return leave_unparsed(argument);
    brackets = parse_brackets(text.substr(1, text.size() - 2), arch_of(symbols));
    if (!brackets) return leave_unparsed(argument);
  }
  if (sum.relocation == "GOTOFF" && brackets)
    return set_from_got(sum, std::move(*brackets), symbols, argument);
  if (!sum.relocation.empty())
    return leave_unparsed(argument, fmt::format("'@{}' is not understood here", sum.relocation));
  if (!brackets) return set_memory_at(argument, sum, symbols);
  if (!sum.symbol.empty()) return set_symbol_memory(sum, std::move(*brackets), symbols, argument);
  argument.displacement = static_cast<std::int64_t>(sum.number);
  set_registers(argument, std::move(*brackets));
}

} // namespace

void parse_x86_operand(std::string_view text, SymbolAddresses& symbols, StaticArgument& argument) {
  if (is_in_thread_block(text)) return set_thread_local(argument);
  if (text.starts_with('%')) return set_x86_register(text.substr(1), arch_of(symbols), argument);
  if (!text.starts_with('$')) return set_memory(text, symbols, argument);
  const auto sum = whole_sum(text.substr(1));
  if (!sum) return leave_unparsed(argument);
  set_constant(argument, *sum, symbols);
}

} // namespace uprobectl
