// Operands of 32-bit ARM: "r0", "#5", "[r7, #-4]", "[r0, r1, lsl #2]", ".L5+4".
#include "usdt/sum.hpp"

#include <array>
#include <fmt/format.h>

namespace uprobectl {

namespace {

using Kind = StaticArgument::Kind;

constexpr std::array<std::string_view, 16> arm_registers = {"r0",  "r1", "r2", "r3", "r4",  "r5",
                                                            "r6",  "r7", "r8", "r9", "r10", "r11",
                                                            "r12", "sp", "lr", "pc"};
// Other names of these; AAPCS32 6.1.1 and GNU as.
constexpr std::array<std::pair<std::string_view, std::size_t>, 7> arm_aliases = {
    {{"sb", 9}, {"sl", 10}, {"fp", 11}, {"ip", 12}, {"r13", 13}, {"r14", 14}, {"r15", 15}}};

// Its name in arm_registers, or nothing.
std::optional<std::string_view> arm_register(std::string_view name) {
  for (const std::string_view known : arm_registers)
    if (known == name) return known;
  for (const auto& [alias, number] : arm_aliases)
    if (alias == name) return arm_registers[number];
  return std::nullopt;
}

bool is_vfp_register(std::string_view name) {
  if (name.size() < 2 || name.size() > 3) return false;
  constexpr std::string_view letters = "sdq";
  return letters.find(name.front()) != std::string_view::npos &&
         name.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// "lsl #2"
std::optional<std::uint32_t> arm_scale(std::string_view text) {
  if (!text.starts_with("lsl")) return std::nullopt;
  std::string_view amount = trimmed(text.substr(3));
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
  if (is_vfp_register(text)) {
    argument.kind = Kind::out_of_reach;
    argument.base = text;
    argument.problem = fmt::format("a BPF program is not given the vector register '{}'", text);
    return;
  }
  const bool marked = text.starts_with('#');
  const auto sum = whole_sum(marked ? text.substr(1) : text);
  if (!sum || !sum->relocation.empty()) return leave_unparsed(argument);
  if (marked || sum->symbol.empty()) return set_constant(argument, *sum, symbols);
  set_memory_at(argument, *sum, symbols); // of the literal pool
}

} // namespace uprobectl
