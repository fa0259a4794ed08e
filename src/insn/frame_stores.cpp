// SPDX-License-Identifier: Apache-2.0
#include "insn/frame_stores.hpp"

#include "util/numbers.hpp"

#include <algorithm>

namespace uprobectl::insn {

namespace {

// Limits the size of a value, bytes, and so the work for damaged files.
constexpr std::uint64_t max_size = 4096;

std::optional<std::int64_t> parse_displacement(std::string_view text) {
  if (text.empty()) return 0;
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const bool is_hexadecimal = text.starts_with("0x");
  if (is_hexadecimal) text.remove_prefix(2);
  const auto number = parse_number<std::int64_t>(text, is_hexadecimal ? 16 : 10);
  return number && is_negative ? std::optional(-*number) : number;
}

} // namespace

void FrameStores::add(std::string_view text) {
  const auto space = std::min(text.find(' '), text.size());
  const std::string_view operation = text.substr(0, space);
  std::string_view operands = text.substr(std::min(space + 1, text.size()));
  if (arch_.arch == Arch::arm64)
    add_arm64(operation, operands);
  else
    add_x86(operation, operands.substr(0, operands.find(" #")));
}

bool FrameStores::cover(std::uint8_t dwarf_register, std::int64_t offset,
                        std::uint64_t size) const {
  constexpr std::int64_t word = 8;
  constexpr std::int64_t widest = 64;
  const auto index = arch_.find_dwarf_register(dwarf_register);
  const auto stored = index ? stores_.find(arch_.registers[*index].name) : stores_.end();
  if (stored == stores_.end() || size > max_size) return false;
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(size); at += word)
    if (std::ranges::none_of(stored->second, [&](std::int64_t each) {
          return each >= offset && each < offset + at + word && each + widest > offset + at;
        }))
      return false;
  return true;
}

// The stack pointer or another register changes.
void FrameStores::forget(std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  const auto named = arch_.operand_register != nullptr ? arch_.operand_register(name)
                                                       : std::optional<OperandRegister>();
  const auto known = stores_.find(named ? std::string_view(named->whole) : name);
  if (known != stores_.end()) stores_.erase(known);
}

// AT&T: the last operand is the one that is written.
void FrameStores::add_x86(std::string_view operation, std::string_view operands) {
  if (operation.starts_with("push") || operation.starts_with("pop") || operation == "leave")
    forget("rsp");
  if (!operands.ends_with(')')) {
    const auto comma = operands.rfind(", ");
    return forget(comma == std::string_view::npos ? operands : operands.substr(comma + 2));
  }
  const bool stores =
      operation.starts_with("mov") || operation.starts_with("vmov") || operation.starts_with("fst");
  const auto open = operands.rfind('(');
  if (!stores || open == std::string_view::npos) return;
  const std::string_view base = operands.substr(open + 1, operands.size() - open - 2);
  const auto blank = operands.substr(0, open).rfind(' ');
  const auto begin = blank == std::string_view::npos ? 0 : blank + 1;
  if (const auto at = parse_displacement(operands.substr(begin, open - begin));
      at && base.starts_with('%'))
    stores_[std::string(base.substr(1))].push_back(*at);
}

// "str w0, [sp, #12]", "stp x29, x30, [sp, #-32]!", "sub sp, sp, #32".
void FrameStores::add_arm64(std::string_view operation, std::string_view operands) {
  const auto comma = std::min(operands.find(','), operands.size());
  const auto open = operands.find('[');
  if (!operation.starts_with("st") || open == std::string_view::npos)
    return forget(operands.substr(0, comma));
  const std::string_view address = operands.substr(open + 1);
  const auto end = std::min(address.find_first_of(",]"), address.size());
  const std::string_view base = address.substr(0, end);
  if (!address.ends_with(']')) return forget(base); // with an update of the base
  const auto sign = address.find('#');
  const auto at = parse_displacement(sign == std::string_view::npos
                                         ? std::string_view()
                                         : address.substr(sign + 1, address.size() - sign - 2));
  if (!at) return;
  std::vector<std::int64_t>& stored = stores_[std::string(base)];
  stored.push_back(*at);
  if (!operation.starts_with("stp")) return;
  const char kind = operands.empty() ? 'x' : operands.front();
  stored.push_back(*at + (kind == 'q' ? 16 : kind == 'w' || kind == 's' ? 4 : 8));
}

} // namespace uprobectl::insn
