#include "usdt/x86_registers.hpp"

#include <algorithm>
#include <array>

namespace uprobectl {

namespace {

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

} // namespace

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

} // namespace uprobectl
