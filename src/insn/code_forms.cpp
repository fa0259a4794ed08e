// SPDX-License-Identifier: Apache-2.0
#include "insn/code_forms.hpp"

namespace uprobectl::insn {

namespace {

constexpr std::size_t arm64_size = 4; // of an instruction

bool is_x86(Arch arch) { return arch == Arch::x86_64 || arch == Arch::i386; }

std::uint8_t byte_at(Bytes code, std::uint64_t at) {
  return at < code.size() ? std::to_integer<std::uint8_t>(code[at]) : std::uint8_t{0};
}

std::optional<WrittenJump> x86_jump(Bytes code, std::uint64_t address, bool is_64bit,
                                    const WordReader& read_word) {
  const auto opcode = read_at<std::uint8_t>(code, 0);
  const std::uint64_t mask = is_64bit ? ~std::uint64_t{0} : ~std::uint32_t{0};
  const auto relative = [&](std::uint64_t size, std::int64_t distance) {
    return (address + size + static_cast<std::uint64_t>(distance)) & mask;
  };
  if (opcode == 0xe9 || opcode == 0xe8)
    if (const auto distance = read_at<std::uint32_t>(code, 1))
      return WrittenJump{opcode == 0xe8, relative(5, static_cast<std::int32_t>(*distance))};
  if (opcode == 0xeb)
    if (const auto distance = read_at<std::uint8_t>(code, 1))
      return WrittenJump{false, relative(2, static_cast<std::int8_t>(*distance))};
  // jmp *slot(%rip); the slot mostly follows.
  if (is_64bit && opcode == 0xff && read_at<std::uint8_t>(code, 1) == 0x25)
    if (const auto distance = read_at<std::uint32_t>(code, 2))
      if (const auto target = read_word(relative(6, static_cast<std::int32_t>(*distance))))
        return WrittenJump{false, *target};
  return std::nullopt;
}

std::optional<WrittenJump> arm64_jump(Bytes code, std::uint64_t address) {
  const auto word = read_at<std::uint32_t>(code, 0);
  if (!word) return std::nullopt;
  const bool is_call = (*word & 0xfc000000) == 0x94000000;
  if (is_call || (*word & 0xfc000000) == 0x14000000) {
    // imm26, in words
    const auto distance = static_cast<std::int64_t>(std::uint64_t{*word} << 38) >> 36;
    return WrittenJump{is_call, address + static_cast<std::uint64_t>(distance)};
  }
  // ldr x16, .+8; br x16; .quad TARGET, also with x17
  const auto next = read_at<std::uint32_t>(code, 4);
  const auto target = read_at<std::uint64_t>(code, 8);
  const std::uint32_t number = *word & 0x1f;
  if ((*word & 0xffffffe0) == 0x58000040 && next == (0xd61f0000 | number << 5) && target)
    return WrittenJump{false, *target};
  return std::nullopt;
}

std::optional<std::uint8_t> arm64_return_register(Bytes code, const UnwindInfo& unwind) {
  const auto word = read_at<std::uint32_t>(code, 0);
  if (!word) return std::nullopt;
  constexpr std::uint32_t ret = 0xd65f0000;
  constexpr std::uint32_t retaa = 0xd65f0bff;
  constexpr std::uint32_t retab = 0xd65f0fff;
  constexpr std::uint32_t operand = 0x1f << 5;
  if (*word == retaa || *word == retab) return unwind.link_register;
  const auto target = static_cast<std::uint8_t>((*word & operand) >> 5);
  const bool returns = (*word & ~operand) == ret && target <= unwind.link_register; // 31: zero
  return returns ? std::optional(target) : std::nullopt;
}

} // namespace

bool may_begin_with_jump(Arch arch, Bytes code) {
  if (is_x86(arch)) {
    constexpr std::size_t landing_pad = 4; // endbr64, endbr32
    std::string_view text = as_text(code);
    if (text.starts_with("\xf3\x0f\x1e\xfa") || text.starts_with("\xf3\x0f\x1e\xfb"))
      text.remove_prefix(landing_pad);
    return text.starts_with('\xe9') || text.starts_with('\xeb'); // jmp
  }
  if (arch != Arch::arm64) return true;
  const auto is_branch = [&](std::size_t offset) { // b; the opcode is in the highest byte
    return offset + arm64_size <= code.size() &&
           (byte_at(code, offset + arm64_size - 1) & 0xfcU) == 0x14;
  };
  return is_branch(0) || is_branch(arm64_size);
}

bool may_be_jump_table_entry(Arch arch, Bytes entry) {
  return !is_x86(arch) || as_text(entry).contains("\xcc\xcc\xcc");
}

bool begins_frame(Arch arch, Bytes code) {
  if (arch != Arch::x86_64) return false;
  const std::uint8_t first = byte_at(code, 0);
  if ((first & 0xf8U) == 0x50) return true;                     // push
  if (first == 0x41) return (byte_at(code, 1) & 0xf8U) == 0x50; // push %r8 to %r15
  if (first != 0x48 || byte_at(code, 2) != 0xec) return false;  // sub $N,%rsp
  return byte_at(code, 1) == 0x81 || byte_at(code, 1) == 0x83;
}

KnownEntry known_entry(Arch arch, Bytes code) {
  if (arch != Arch::x86_64) return KnownEntry::none;
  if (as_text(code).starts_with("\x55")) return KnownEntry::push_frame_pointer;
  if (as_text(code).starts_with("\xf3\x0f\x1e\xfa")) return KnownEntry::landing_pad;
  return KnownEntry::none;
}

bool repeats(Arch arch, Bytes code) {
  if (arch != Arch::x86_64) return false;
  std::size_t at = 0;
  bool has_repeat = false;
  for (std::uint8_t byte = byte_at(code, at);
       byte == 0xf2 || byte == 0xf3 || byte == 0x66 || byte == 0x67; byte = byte_at(code, ++at))
    has_repeat |= byte == 0xf2 || byte == 0xf3;
  if ((byte_at(code, at) & 0xf0U) == 0x40) ++at; // rex
  const std::uint8_t opcode = byte_at(code, at);
  if (has_repeat && ((opcode >= 0xa4 && opcode <= 0xa7) || (opcode >= 0xaa && opcode <= 0xaf)))
    return true;
  const bool is_short_jump =
      (opcode & 0xf0U) == 0x70 || (opcode >= 0xe0 && opcode <= 0xe3) || opcode == 0xeb;
  return is_short_jump && byte_at(code, at + 1) == 0xfe;
}

void each_far_target(Arch arch, Bytes code, VirtualAddress address,
                     const std::function<void(VirtualAddress)>& visit) {
  if (arch != Arch::x86_64) return;
  constexpr std::uint64_t distance_size = 4;
  for (std::uint64_t at = 1; at + distance_size <= code.size(); ++at) {
    const std::uint8_t opcode = byte_at(code, at - 1);
    const bool is_jcc = (opcode & 0xf0U) == 0x80 && at >= 2 && byte_at(code, at - 2) == 0x0f;
    if (opcode != 0xe8 && opcode != 0xe9 && !is_jcc) continue;
    const auto distance = static_cast<std::int32_t>(*read_at<std::uint32_t>(code, at));
    if (distance != 0)
      visit({address.value + at + distance_size +
             static_cast<std::uint64_t>(std::int64_t{distance})});
  }
}

std::optional<std::uint8_t> return_register_at(Arch arch, Bytes code) {
  const UnwindInfo* const unwind = arch_info(arch).unwind;
  if (arch == Arch::x86_64) {
    const std::string_view text = as_text(code);
    const bool returns =
        text.starts_with("\xc3") || text.starts_with("\xf3\xc3") || text.starts_with("\xf2\xc3");
    return returns ? std::optional(unwind->stack_pointer) : std::nullopt;
  }
  return arch == Arch::arm64 ? arm64_return_register(code, *unwind) : std::nullopt;
}

std::optional<WrittenJump> written_jump_at(Arch arch, Bytes code, std::uint64_t address,
                                           const WordReader& read_word) {
  if (is_x86(arch)) return x86_jump(code, address, arch == Arch::x86_64, read_word);
  return arch == Arch::arm64 ? arm64_jump(code, address) : std::nullopt;
}

} // namespace uprobectl::insn
