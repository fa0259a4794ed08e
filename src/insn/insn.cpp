// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/insn.hpp"
#include "insn/decoder.hpp"

#include <algorithm>
#include <array>
#include <ranges>

namespace uprobectl::insn {

namespace {

std::optional<std::uint32_t> decoded_size(Arch arch, Bytes bytes) {
  const Decoder* decoder = Decoder::for_arch(arch);
  if (decoder == nullptr) return std::nullopt;
  const Bytes window = bytes.first(std::min(bytes.size(), max_x86_instruction_size));
  std::uint32_t at = 0;
  while (at < window.size()) {
    const auto decoded = decoder->decode(window.subspan(at), {});
    if (!decoded) return std::nullopt;
    at += decoded->size;
    if (!decoded->only_prefix) return at;
  }
  return std::nullopt;
}

// The first halfword of a 4-byte instruction begins with 0b11101, 0b11110 or 0b11111 (ARM DDI 0406C
// A6.1).
std::optional<std::uint32_t> thumb_size(Bytes bytes) {
  const auto halfword = read_at<std::uint16_t>(bytes, 0);
  if (!halfword) return std::nullopt;
  const std::uint32_t size = *halfword >> 11 >= 0b11101 ? 4 : 2;
  if (size > bytes.size()) return std::nullopt;
  return size;
}

bool is_padding(const Decoder& decoder, const Decoder::Decoded& decoded) {
  const std::string_view name = decoder.name(decoded);
  if (name != "HINT") return name.starts_with("NOOP") || name.starts_with("ENDBR");
  // Arm ARM C6.2, HINT: nop; bti and bti c, j, jc.
  constexpr std::array<std::int64_t, 5> harmless = {0, 32, 34, 36, 38};
  return std::ranges::find(harmless, decoded.instruction.getOperand(0).getImm()) != harmless.end();
}

} // namespace

std::uint64_t entry_padding(Arch arch, Bytes code) {
  const Decoder* const decoder = Decoder::for_arch(arch);
  std::uint64_t at = 0;
  while (decoder != nullptr && at < code.size()) {
    const auto decoded = decoder->decode(code.subspan(at), {});
    if (!decoded || !is_padding(*decoder, *decoded)) break;
    at += decoded->size;
  }
  return at;
}

std::optional<std::uint32_t> instruction_size(Arch arch, Bytes bytes) {
  if (arch == Arch::thumb) return thumb_size(bytes);
  const std::uint32_t size = arch_info(arch).instruction_size;
  if (size == 0) return decoded_size(arch, bytes);
  return size <= bytes.size() ? std::optional(size) : std::nullopt;
}

std::optional<Instruction> instruction_around(Arch arch, Bytes function, std::uint64_t offset) {
  if (offset >= function.size()) return std::nullopt;
  const std::uint64_t fixed_size = arch_info(arch).instruction_size;
  std::uint64_t at = fixed_size != 0 ? offset - offset % fixed_size : 0;
  for (;;) {
    const auto size = instruction_size(arch, function.subspan(at));
    if (!size) return std::nullopt;
    if (offset - at < *size) return Instruction{at, *size};
    at += *size;
  }
}

Boundary boundary_at(Arch arch, Bytes function, std::uint64_t offset) {
  if (offset >= function.size()) return Boundary::no;
  const auto around = instruction_around(arch, function, offset);
  if (!around) return Boundary::unknown;
  return around->offset == offset ? Boundary::yes : Boundary::no;
}

namespace {

// Replaces each run of blanks by one space and trims the text.
std::string on_one_line(std::string_view text) {
  std::string line;
  bool gap = false;
  for (const char c : text) {
    if (c == ' ' || c == '\t') {
      gap = !line.empty();
      continue;
    }
    if (gap) line += ' ';
    gap = false;
    line += c;
  }
  return line;
}

} // namespace

std::optional<std::string> instruction_text(Arch arch, Bytes bytes, VirtualAddress address) {
  Decoder* decoder = Decoder::for_arch(arch);
  if (decoder == nullptr) return std::nullopt;
  const auto size = instruction_size(arch, bytes);
  if (!size) return std::nullopt;
  std::string text;
  std::string comments;
  for (std::uint32_t at = 0; at < *size;) { // LLVM may return a prefix as a separate instruction
    const VirtualAddress current{address.value + at};
    const auto decoded = decoder->decode(bytes.first(*size).subspan(at), current);
    if (!decoded) return std::nullopt;
    const auto printed = decoder->print(*decoded, current);
    text.append(" ").append(printed.text);
    comments.append("\n").append(printed.comments);
    at += decoded->size;
  }
  std::string line = on_one_line(text);
  for (const auto part : std::views::split(comments, '\n')) {
    const std::string comment = on_one_line({part.begin(), part.end()});
    if (!comment.empty())
      line.append(" ").append(decoder->comment_sign()).append(" ").append(comment);
  }
  return line;
}

} // namespace uprobectl::insn
