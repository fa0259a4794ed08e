// Operands of x86: "%rax", "$5", "-8(%rbp,%rcx,4)", "counter+4(%rip)".
#include "usdt/sum.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

namespace {

struct X86Register {
  std::string whole;       // "rax", in i386 files "eax"
  std::uint32_t bits = 0;  // of the part that was named: 8, 16, 32, 64
  std::uint32_t shift = 0; // of that part from the lowest bit: 8 for "ah"
};

// Intel SDM volume 1, 3.4.1: the names of the parts of each register.
struct Parts {
  std::string_view bits64;
  std::string_view bits32;
  std::string_view bits16;
  std::string_view low8;
  std::string_view high8; // bits 8 to 15
};

constexpr std::array<Parts, 9> named_parts = {{
    {"rax", "eax", "ax", "al", "ah"},
    {"rbx", "ebx", "bx", "bl", "bh"},
    {"rcx", "ecx", "cx", "cl", "ch"},
    {"rdx", "edx", "dx", "dl", "dh"},
    {"rsi", "esi", "si", "sil", ""},
    {"rdi", "edi", "di", "dil", ""},
    {"rbp", "ebp", "bp", "bpl", ""},
    {"rsp", "esp", "sp", "spl", ""},
    {"rip", "eip", "", "", ""},
}};

std::optional<std::uint32_t> small_number(std::string_view text, std::uint32_t limit) {
  if (text.empty() || text.size() > 2 || (text.size() == 2 && text.front() == '0'))
    return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return value < limit ? std::optional(value) : std::nullopt;
}

// r8 to r15, with "d", "w" or "b" for their lower parts.
std::optional<X86Register> numbered_register(std::string_view name) {
  if (!name.starts_with('r')) return std::nullopt;
  const std::size_t digits = std::min(name.find_first_not_of("0123456789", 1), name.size());
  const auto number = small_number(name.substr(1, digits - 1), 16);
  if (!number || *number < 8) return std::nullopt;
  X86Register found{.whole = std::string(name.substr(0, digits))};
  const std::string_view suffix = name.substr(digits);
  if (suffix.empty()) found.bits = 64;
  if (suffix == "d") found.bits = 32;
  if (suffix == "w") found.bits = 16;
  if (suffix == "b" || suffix == "l") found.bits = 8; // Intel writes "r8l"
  return found.bits != 0 ? std::optional(std::move(found)) : std::nullopt;
}

// name: without '%'. Nothing for what is no general register or ip; in i386 files that includes
// those that only 64-bit code has.
std::optional<X86Register> x86_register(std::string_view name, bool is_i386) {
  if (name.size() < 2) return std::nullopt;
  for (const Parts& parts : named_parts) {
    // Every part has this letter: "rax", "eax", "ax", "al", "ah".
    if (name.find(parts.bits32[1]) == std::string_view::npos) continue;
    const auto part = [&](std::uint32_t bits, std::uint32_t shift) {
      return X86Register{std::string(is_i386 ? parts.bits32 : parts.bits64), bits, shift};
    };
    if (name == parts.bits64 && !is_i386) return part(64, 0);
    if (name == parts.bits32) return part(32, 0);
    if (name == parts.bits16) return part(16, 0);
    // The low bytes of those without a high one need a REX prefix.
    if (name == parts.low8 && !(is_i386 && parts.high8.empty())) return part(8, 0);
    if (name == parts.high8) return part(8, 8);
  }
  return is_i386 ? std::nullopt : numbered_register(name);
}

// Registers that are there but not among those that the kernel saves for a probe: "vector
// register", "x87 register", ...; nothing for other names.
std::optional<std::string_view> unsaved_x86_register(std::string_view name) {
  for (const std::string_view vector : {"xmm", "ymm", "zmm"})
    if (name.starts_with(vector) && small_number(name.substr(3), 32)) return "vector register";
  if (name == "st" || (name.starts_with("st(") && name.ends_with(')') && name.size() == 5 &&
                       small_number(name.substr(3, 1), 8)))
    return "x87 register";
  if (name.starts_with("mm") && small_number(name.substr(2), 8)) return "MMX register";
  if (name.starts_with('k') && small_number(name.substr(1), 8)) return "mask register";
  return std::nullopt;
}

// Operands of x86-64 and i386 as GNU as and clang write them (AT&T syntax): "%rax", "$-5",
// "-20(%rbp,%rax,4)", "counter+4(%rip)", "x@GOTOFF(%ebx)".

using Kind = StaticArgument::Kind;

bool is_i386(const SymbolAddresses& symbols) {
  constexpr std::uint16_t machine_i386 = 3; // EM_386; x32 files are EM_X86_64 of 32 bits
  return symbols.image().machine().id == machine_i386;
}

// "%NAME", all of the text.
void set_x86_register(std::string_view name, bool i386, StaticArgument& argument) {
  if (auto found = x86_register(name, i386)) {
    argument.kind = Kind::in_register;
    argument.base = std::move(found->whole);
    argument.shift = found->shift;
    argument.width = found->bits / 8;
    return;
  }
  if (const auto what = unsaved_x86_register(name)) {
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
std::optional<std::string> address_register(std::string_view text, bool i386) {
  if (text.empty()) return std::string();
  if (!text.starts_with('%')) return std::nullopt;
  auto found = x86_register(text.substr(1), i386);
  if (!found || found->bits < 32) return std::nullopt;
  return std::move(found->whole);
}

// What stands between the brackets: "%rbp", "%rax,%rbx,4", ",%rax,8".
std::optional<Brackets> parse_brackets(std::string_view text, bool i386) {
  const auto split = split_at_commas(text);
  if (!split) return std::nullopt;
  const auto& parts = split->parts;
  auto base = address_register(parts[0], i386);
  auto index = address_register(parts[1], i386);
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
    brackets = parse_brackets(text.substr(1, text.size() - 2), is_i386(symbols));
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
  if (text.starts_with('%')) return set_x86_register(text.substr(1), is_i386(symbols), argument);
  if (!text.starts_with('$')) return set_memory(text, symbols, argument);
  const auto sum = whole_sum(text.substr(1));
  if (!sum) return leave_unparsed(argument);
  set_constant(argument, *sum, symbols);
}

} // namespace uprobectl
