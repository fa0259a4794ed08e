// Operands of arm64: "x0", "w0", "5", "[sp, 12]", "[x0, w1, sxtw 2]", "[x21, #:lo12:counter]".
#include "usdt/sum.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

using Kind = StaticArgument::Kind;
using IndexPart = StaticArgument::IndexPart;

struct Arm64Register {
  std::string whole; // "x0", "sp"; empty: the zero register
  bool is_64bit = true;
};

std::optional<unsigned> arm64_number(std::string_view digits, unsigned limit) {
  if (digits.empty() || digits.size() > 2 || (digits.size() == 2 && digits.front() == '0'))
    return std::nullopt;
  unsigned value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  return value < limit ? std::optional(value) : std::nullopt;
}

std::optional<Arm64Register> arm64_register(std::string_view name) {
  if (name == "sp" || name == "wsp") return Arm64Register{"sp", name == "sp"};
  if (name == "xzr" || name == "wzr") return Arm64Register{"", name == "xzr"};
  // AAPCS64 6.1.1.
  if (name == "fp") return Arm64Register{"x29"};
  if (name == "lr") return Arm64Register{"x30"};
  if (name == "ip0") return Arm64Register{"x16"};
  if (name == "ip1") return Arm64Register{"x17"};
  if (!name.starts_with('x') && !name.starts_with('w')) return std::nullopt;
  const auto number = arm64_number(name.substr(1), 31);
  if (!number) return std::nullopt;
  return Arm64Register{fmt::format("x{}", *number), name.starts_with('x')};
}

// "v0", "d8", "q31", "v0.d[1]", "z3", "p0".
bool is_vector_register(std::string_view name) {
  constexpr std::string_view letters = "vbhsdqzp";
  const std::string_view whole = name.substr(0, name.find('.'));
  return !whole.empty() && letters.find(whole.front()) != std::string_view::npos &&
         arm64_number(whole.substr(1), 32).has_value();
}

std::string_view without_hash(std::string_view text) {
  if (text.starts_with('#')) text.remove_prefix(1);
  return text;
}

// "lsl 3", "sxtw #2", "sxtw": what is done to the index before it is added.
bool set_extension(std::string_view text, StaticArgument& argument) {
  const std::string_view word = text.substr(0, text.find_first_of(" \t#"));
  const std::string_view amount = without_hash(trimmed(text.substr(word.size())));
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
  argument.index = std::move(index->whole);
  argument.index_part = index->is_64bit ? IndexPart::whole : IndexPart::low_word;
  if (extension.empty()) return index->is_64bit;
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
  if (!base || !base->is_64bit || base->whole.empty()) return leave_unparsed(argument);
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
    argument.width = found->is_64bit ? 8 : 4;
    argument.base = std::move(found->whole);
    return;
  }
  if (is_vector_register(text)) {
    argument.kind = Kind::out_of_reach;
    argument.base = text;
    argument.problem = fmt::format("a BPF program is not given the vector register '{}'", text);
    return;
  }
  const auto number = whole_number(without_hash(text));
  if (!number) return leave_unparsed(argument);
  argument.kind = Kind::constant;
  argument.constant = *number;
}

} // namespace uprobectl
