#include "uprobectl/insn.hpp"

#include "insn/decoder.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

constexpr std::uint32_t arm_size = 4; // bytes, A64 and A32 alike

std::optional<std::uint32_t> x86_size(InstructionSet set, Bytes bytes) {
  const Decoder* decoder = Decoder::of(set);
  if (decoder == nullptr) return std::nullopt;
  const Bytes window = bytes.first(std::min(bytes.size(), x86_longest_instruction));
  std::uint32_t at = 0;
  while (at < window.size()) {
    const auto decoded = decoder->decode(window.subspan(at), {});
    if (!decoded) return std::nullopt;
    at += decoded->size;
    if (!decoded->only_prefix) return at;
  }
  return std::nullopt;
}

// The first halfword of a pair begins with 0b11101, 0b11110 or 0b11111 (ARM DDI 0406C A6.1).
std::optional<std::uint32_t> thumb_size(Bytes bytes) {
  const auto halfword = read_at<std::uint16_t>(bytes, 0);
  if (!halfword) return std::nullopt;
  const std::uint32_t size = *halfword >> 11 >= 0b11101 ? 4 : 2;
  if (size > bytes.size()) return std::nullopt;
  return size;
}

} // namespace

std::optional<std::uint32_t> instruction_size(InstructionSet set, Bytes bytes) {
  switch (set) {
  case InstructionSet::x86_64:
  case InstructionSet::i386:
    return x86_size(set, bytes);
  case InstructionSet::arm64:
  case InstructionSet::arm:
    if (bytes.size() < arm_size) return std::nullopt;
    return arm_size;
  case InstructionSet::thumb:
    return thumb_size(bytes);
  }
  return std::nullopt;
}

std::optional<Instruction> instruction_around(InstructionSet set, Bytes function,
                                              std::uint64_t offset) {
  if (offset >= function.size()) return std::nullopt;
  const bool fixed_size = set == InstructionSet::arm64 || set == InstructionSet::arm;
  std::uint64_t at = fixed_size ? offset - offset % arm_size : 0;
  for (;;) {
    const auto size = instruction_size(set, function.subspan(at));
    if (!size) return std::nullopt;
    if (offset - at < *size) return Instruction{at, *size};
    at += *size;
  }
}

Boundary boundary_at(InstructionSet set, Bytes function, std::uint64_t offset) {
  if (offset >= function.size()) return Boundary::no;
  const auto around = instruction_around(set, function, offset);
  if (!around) return Boundary::unknown;
  return around->offset == offset ? Boundary::yes : Boundary::no;
}

} // namespace uprobectl
