// SPDX-License-Identifier: Apache-2.0
// probe_effect(): the effect of a uprobe on an instruction, by the rules of the kernel.
// x86: Linux arch/x86/kernel/uprobes.c reads the opcode byte and ignores the opcode map. It
// therefore mistakes many AVX instructions for jumps, calls and returns.
// arm64: Linux arch/arm64/kernel/probes/decode-insn.c; encodings are those of the Arm A-profile A64
// instruction set (DDI 0602).
#include "insn/decoder.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::insn {

namespace {

constexpr ProbeEffect refused(std::string_view reason) {
  return {.kind = ProbeEffect::Kind::refused, .reason = reason};
}
constexpr ProbeEffect unsafe(std::string_view reason) {
  return {.kind = ProbeEffect::Kind::unsafe, .reason = reason};
}
constexpr ProbeEffect stepped() { return {}; }
constexpr ProbeEffect emulated() { return {.emulated = true}; }

// One-byte opcodes that the kernel refuses (good_insns_64 and good_insns_32), as a bitmap: indexed
// by the high nibble, with a bit for each low nibble.
using Opcodes = std::array<std::uint16_t, 16>;
constexpr Opcodes refused_64 = {0x40c0, 0xc0c0, 0x8080, 0x8080, 0,      0,      0xf007, 0,
                                0x0004, 0x0400, 0,      0,      0xf000, 0x0070, 0xf4f0, 0x0c12};
constexpr Opcodes refused_32 = {0x0080, 0x8080, 0, 0, 0,      0, 0xf000, 0,
                                0,      0,      0, 0, 0xf000, 0, 0xf0f0, 0x0c12};

bool contains(const Opcodes& opcodes, std::uint8_t opcode) {
  return (opcodes[opcode >> 4U] >> (opcode & 0xfU) & 1U) != 0;
}

bool is_between(std::uint8_t value, std::uint8_t first, std::uint8_t last) {
  return value >= first && value <= last;
}

// The parts of an instruction on which the kernel's handling depends (Intel SDM volume 2, 2).
struct X86Instruction {
  enum class Encoding { legacy, vex, evex, xop, rex2 };

  Encoding encoding = Encoding::legacy;
  std::uint8_t map = 0; // legacy: 0 one byte, 1 0f, 2 0f 38, 3 0f 3a
  std::uint8_t opcode = 0;
  std::optional<std::uint8_t> modrm = {}; // the byte after the opcode, if any
  std::uint8_t rex = 0;
  std::size_t prefixes = 0; // without rex
  bool has_lock = false;
  bool has_segment = false; // es, cs, ss or ds
  bool has_operand_size = false;
  bool has_repeat = false; // f2 or f3
  bool has_repeat_f3 = false;

  unsigned reg() const { return modrm.value_or(0) >> 3U & 7U; }
  bool names_register() const { return modrm && (*modrm & 0xc0U) == 0xc0; }
  bool is_rip_relative() const { return modrm && (*modrm & 0xc7U) == 0x05; } // in 64-bit code
};

class X86Reader {
public:
  X86Reader(Arch arch, Bytes bytes)
      : is_64_(arch == Arch::x86_64),
        bytes_(bytes.first(std::min(bytes.size(), max_x86_instruction_size))) {}

  // Returns nullopt if the opcode is truncated.
  std::optional<X86Instruction> read() {
    while (at_ < bytes_.size() && take_prefix(byte(0))) ++at_;
    if (at_ >= bytes_.size() || !read_opcode()) return std::nullopt;
    if (at_ < bytes_.size()) found_.modrm = byte(0);
    return found_;
  }

private:
  using Encoding = X86Instruction::Encoding;

  bool take_prefix(std::uint8_t value) {
    switch (value) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
      found_.has_segment = true;
      break;
    case 0xf0:
      found_.has_lock = true;
      break;
    case 0x66:
      found_.has_operand_size = true;
      break;
    case 0x64:
    case 0x65:
    case 0x67:
      break;
    case 0xf3:
      found_.has_repeat_f3 = true;
      [[fallthrough]];
    case 0xf2:
      found_.has_repeat = true;
      break;
    default:
      if (!is_64_ || (value & 0xf0U) != 0x40) return false;
      found_.rex = value;
      return true;
    }
    found_.rex = 0; // rex has no effect unless it is the last prefix
    ++found_.prefixes;
    return true;
  }

  // In 32-bit code the bytes of VEX and EVEX are legacy instructions unless the next byte has the
  // ModRM form of a register, which is invalid for those.
  bool is_vector_prefix() const { return has(1) && (is_64_ || (byte(1) & 0xc0U) == 0xc0); }

  bool read_opcode() {
    const std::uint8_t first = byte(0);
    if (first == 0xc5 && is_vector_prefix()) return take(Encoding::vex, 1, 2);
    if (first == 0xc4 && is_vector_prefix()) return take(Encoding::vex, byte(1) & 0x1fU, 3);
    if (first == 0x62 && is_vector_prefix()) return take(Encoding::evex, byte(1) & 7U, 4);
    // Otherwise it is `pop` of a memory operand.
    if (first == 0x8f && has(1) && (byte(1) & 0x1fU) >= 8)
      return take(Encoding::xop, byte(1) & 0x1fU, 3);
    if (first == 0xd5 && is_64_) return take(Encoding::rex2, 0, 2);
    if (first != 0x0f) return take(Encoding::legacy, 0, 0);
    if (!has(1)) return false;
    if (byte(1) == 0x38) return take(Encoding::legacy, 2, 2);
    if (byte(1) == 0x3a) return take(Encoding::legacy, 3, 2);
    return take(Encoding::legacy, 1, 1);
  }

  bool take(Encoding encoding, unsigned map, std::size_t skipped) {
    found_.encoding = encoding;
    found_.map = static_cast<std::uint8_t>(map);
    if (!has(skipped)) return false;
    found_.opcode = byte(skipped);
    at_ += skipped + 1;
    return true;
  }

  bool has(std::size_t ahead) const { return at_ + ahead < bytes_.size(); }
  std::uint8_t byte(std::size_t ahead) const {
    return std::to_integer<std::uint8_t>(bytes_[at_ + ahead]);
  }

  bool is_64_;
  Bytes bytes_;
  std::size_t at_ = 0;
  X86Instruction found_;
};

constexpr auto not_supported = refused("the kernel does not probe this instruction");

// VEX and EVEX, of any map.
ProbeEffect effect_on_vector(const X86Instruction& insn, bool is_64) {
  const std::uint8_t opcode = insn.opcode;
  if (insn.encoding == X86Instruction::Encoding::evex && insn.map == 4)
    return unsafe("how the kernel runs instructions of APX is not known");
  if (is_between(opcode, 0x70, 0x7f) || opcode == 0xeb || opcode == 0xe9)
    return unsafe("the kernel takes this AVX instruction for a jump and does not run it");
  if (opcode == 0x90) return unsafe("the kernel takes this AVX instruction for a nop");
  if (opcode == 0xe8 || (opcode == 0x9a && !is_64))
    return unsafe("the kernel takes this AVX instruction for a call");
  if (is_between(opcode, 0xc2, 0xc3) || is_between(opcode, 0xca, 0xcb) ||
      (opcode == 0xea && !is_64))
    return unsafe(
        "the kernel takes this AVX instruction for a return and goes on at a wrong address");
  if (opcode == 0x9d)
    return unsafe("the kernel takes this AVX instruction for popf and leaves the trap flag set");
  if (opcode == 0x8e && insn.reg() == 2)
    return refused("the kernel takes this AVX instruction for a load of the stack segment");
  if (contains(is_64 ? refused_64 : refused_32, opcode)) return not_supported;
  return stepped();
}

ProbeEffect effect_on_one_byte(const X86Instruction& insn, bool is_64) {
  const std::uint8_t opcode = insn.opcode;
  constexpr std::uint8_t rex_b = 1;
  if (is_between(opcode, 0x70, 0x7f) || opcode == 0xe8 || opcode == 0xe9 || opcode == 0xeb)
    return insn.has_operand_size
               ? refused("the kernel refuses a branch with an operand size prefix")
               : emulated();
  if (is_between(opcode, 0xe0, 0xe3) && insn.has_operand_size)
    return unsafe("a 16 bit branch in a copy of the instruction goes to another address");
  if (opcode == 0x90)
    return (insn.rex & rex_b) != 0 ? unsafe("the kernel takes this xchg for a nop") : emulated();
  if (is_between(opcode, 0x50, 0x57))
    return insn.prefixes == 0 && (insn.rex == 0 || insn.rex == 0x41) ? emulated() : stepped();
  if (opcode == 0x9c)
    return unsafe("pushf stores the trap flag, with which the kernel runs the instruction");
  if ((opcode == 0x8e && insn.reg() == 2) || (opcode == 0x17 && !is_64))
    return refused("the kernel refuses an instruction that loads the stack segment");
  if (opcode == 0xff && insn.reg() == 2 && insn.has_operand_size)
    return unsafe("the kernel stores another return address than this 16 bit call does");
  if (opcode == 0xff && insn.reg() == 3)
    return unsafe("the kernel stores another return address than this far call does");
  if (opcode == 0xc7 && insn.modrm == 0xf8)
    return unsafe("a transaction that begins in a copy of the instruction does not come back");
  if (contains(is_64 ? refused_64 : refused_32, opcode)) return not_supported;
  return stepped();
}

// sgdt, sidt, smsw, sldt and str, which the kernel emulates on processors with UMIP.
bool is_umip(const X86Instruction& insn) {
  if (insn.opcode == 0x00) return insn.reg() <= 1;
  return insn.opcode == 0x01 && (insn.reg() == 4 || (insn.reg() <= 1 && !insn.names_register()));
}

// cmov, set and movnt with f2 or f3: the kernel's decoder tables have no operand for them.
bool has_unknown_operand(const X86Instruction& insn) {
  const std::uint8_t low = insn.opcode & 0xfU;
  const bool is_cmov = insn.opcode >> 4U == 4 &&
                       (low == 1 || low == 2 || is_between(low, 4, 7) || low == 10 || low == 11);
  const bool is_set = insn.opcode >> 4U == 9 && (low <= 3 || low == 8 || low == 9);
  return insn.has_repeat && (is_cmov || is_set || insn.opcode == 0x2b);
}

ProbeEffect effect_on_two_bytes(const X86Instruction& insn, Arch arch) {
  if (is_umip(insn)) return unsafe("the kernel does not do this instruction's work in its copy");
  if (arch == Arch::x86_64 && insn.is_rip_relative() && has_unknown_operand(insn))
    return unsafe("the kernel does not see that this operand is relative to the instruction");
  switch (insn.opcode) {
  case 0x78: // and AMD's extrq and insertq
  case 0x79:
    return not_supported;
  case 0x05:
    if (arch == Arch::i386) break;
    return unsafe("a system call made by a copy of the instruction comes back to the copy");
  case 0x34:
    return unsafe("a system call made by a copy of the instruction comes back to the copy");
  default:
    break;
  }
  if (is_between(insn.opcode, 0x80, 0x8f))
    return insn.has_operand_size
               ? refused("the kernel refuses a branch with an operand size prefix")
               : emulated();
  return stepped();
}

ProbeEffect x86_probe_effect(Arch arch, Bytes bytes) {
  const auto read = X86Reader(arch, bytes).read();
  if (!read) return stepped();
  const X86Instruction& insn = *read;
  const bool is_64 = arch == Arch::x86_64;
  if (insn.has_lock) return refused("the kernel refuses an instruction with a lock prefix");
  if (insn.has_segment)
    return refused("the kernel refuses an instruction with a segment prefix (cs, ds, es or ss)");
  switch (insn.encoding) {
  case X86Instruction::Encoding::vex:
  case X86Instruction::Encoding::evex:
    return effect_on_vector(insn, is_64);
  case X86Instruction::Encoding::xop:
    return unsafe("how the kernel runs instructions of XOP is not known");
  case X86Instruction::Encoding::rex2:
    return unsafe("how the kernel runs instructions of APX is not known");
  case X86Instruction::Encoding::legacy:
    break;
  }
  if (insn.map == 0) return effect_on_one_byte(insn, is_64);
  if (insn.map != 1) return stepped();
  return effect_on_two_bytes(insn, arch);
}

// Whether the instruction does nothing, by the rules of insn_is_nop() in Linux
// arch/x86/lib/insn-eval.c. Only asked for instructions of five bytes.
bool is_nop(const X86Instruction& insn, Bytes bytes) {
  constexpr std::uint8_t rex_b = 1;
  constexpr std::uint8_t rex_x = 2;
  constexpr std::uint8_t rex_r = 4;
  constexpr std::uint8_t rex_w = 8;
  constexpr std::size_t size = 5;
  if (insn.encoding != X86Instruction::Encoding::legacy || bytes.size() < size) return false;
  if (insn.map == 1) return insn.opcode == 0x1f && insn.reg() == 0 && (insn.rex & rex_r) == 0;
  if (insn.map != 0) return false;
  const std::uint8_t mode = insn.modrm.value_or(0) >> 6U;
  const unsigned rm = insn.modrm.value_or(0) & 7U;
  const bool same_half = ((insn.rex & rex_r) != 0) == ((insn.rex & rex_b) != 0);
  switch (insn.opcode) {
  case 0x90: // not pause, and not xchg %r8,%rax
    return !insn.has_repeat_f3 && (insn.rex & rex_b) == 0;
  case 0x89: // mov of a register to itself
    return mode == 3 && (insn.rex & rex_w) != 0 && insn.reg() == rm && same_half;
  case 0x8d: { // lea 0(%reg),%reg, with a SIB byte that has no index
    const auto sib = std::to_integer<std::uint8_t>(bytes[size - 2]);
    return mode == 1 && rm == 4 && (insn.rex & rex_w) != 0 && (insn.rex & rex_x) == 0 &&
           insn.prefixes == 0 && sib >> 3U == 4 && insn.reg() == (sib & 7U) && same_half &&
           bytes[size - 1] == std::byte{0};
  }
  case 0xe9: // jmp to the next instruction
    return std::ranges::all_of(bytes.subspan(1, size - 1),
                               [](std::byte byte) { return byte == std::byte{0}; });
  case 0xeb:
    return bytes[size - 1] == std::byte{0};
  default:
    return false;
  }
}

// is_optimizable_nop10() in Linux arch/x86/kernel/uprobes.c.
bool is_long_nop(Bytes bytes) {
  constexpr std::array start = {std::byte{0x66}, std::byte{0x2e}, std::byte{0x0f}, std::byte{0x1f},
                                std::byte{0x84}};
  return bytes.size() >= 2 * start.size() && std::ranges::equal(bytes.first(start.size()), start);
}

constexpr std::uint64_t word_size = 4; // bytes

struct A64Pattern {
  std::uint32_t mask;
  std::uint32_t value;
  constexpr bool has(std::uint32_t word) const { return (word & mask) == value; }
};

constexpr A64Pattern branch{0x7c000000, 0x14000000}; // and bl
constexpr A64Pattern b_cond{0xff000010, 0x54000000};
constexpr A64Pattern bc_cond{0xff000010, 0x54000010};
constexpr A64Pattern cbz{0x7e000000, 0x34000000};       // and cbnz
constexpr A64Pattern tbz{0x7e000000, 0x36000000};       // and tbnz
constexpr A64Pattern cb_cc{0x7e000000, 0x74000000};     // compare and branch (FEAT_CMPBR)
constexpr A64Pattern ret_of_pc{0xff000000, 0x55000000}; // retaasppc, retabsppc
constexpr A64Pattern branch_register{0xfe000000, 0xd6000000};
constexpr A64Pattern plain_branch_register{0xff9ffc1f, 0xd61f0000}; // br, blr, ret
constexpr A64Pattern plain_ret{0xfffffc1f, 0xd65f0000};
constexpr A64Pattern exception{0xff000000, 0xd4000000}; // svc, hvc, smc, brk, hlt
constexpr A64Pattern msr_register{0xfff00000, 0xd5100000};
constexpr A64Pattern msr_immediate{0xfff8f01f, 0xd500401f}; // and cfinv, axflag, xaflag
constexpr A64Pattern hint{0xfffff01f, 0xd503201f};
constexpr A64Pattern adr{0x1f000000, 0x10000000}; // and adrp
constexpr A64Pattern load_literal{0x3b000000, 0x18000000};
constexpr std::uint32_t simd_bit = 1U << 26U;
constexpr A64Pattern exclusive{0x3f800000, 0x08000000}; // and casp
constexpr A64Pattern casp{0xbfa00000, 0x08200000};
constexpr std::uint32_t load_bit = 1U << 22U;
constexpr A64Pattern memory_copy{0x3b200c00, 0x19000400}; // cpy*, set* (FEAT_MOPS)
// Sign or authenticate with the program counter (FEAT_PAuth_LR): paciasppc, pacnbiasppc, autiasppc
// and those with key B.
constexpr A64Pattern sign_with_pc{0xffffdbff, 0xdac183fe};
constexpr A64Pattern authenticate_with_pc{0xffc0001f, 0xf380001f};
constexpr A64Pattern movprfx{0xfffffc00, 0x0420bc00};
constexpr A64Pattern movprfx_predicated{0xff3ee000, 0x04102000};
constexpr A64Pattern clear_exclusive{0xfffff0ff, 0xd503305f};

// Which hints the kernel single-steps: aarch64_insn_is_steppable_hint.
ProbeEffect effect_on_hint(std::uint32_t word) {
  const std::uint32_t number = word >> 5U & 0x7fU;
  constexpr std::uint32_t nop = 0;
  constexpr std::uint32_t xpaclri = 7;
  const bool is_old_pac = number == 8 || number == 10;
  const bool is_pac = number >= 24 && number <= 27; // paciaz to pacibsp
  const bool is_bti = number == 32 || number == 34 || number == 36 || number == 38;
  if (number == nop || number == xpaclri || is_old_pac || is_pac || is_bti) return stepped();
  return refused("the kernel does not probe this hint (autiasp, yield, wfe, csdb and the like)");
}

ProbeEffect effect_on_word(std::uint32_t word) {
  if (branch.has(word) || b_cond.has(word) || cbz.has(word) || tbz.has(word) || adr.has(word))
    return emulated();
  if (bc_cond.has(word) || cb_cc.has(word) || ret_of_pc.has(word))
    return unsafe("the kernel runs a copy of this branch, which goes to another address");
  if (branch_register.has(word))
    return plain_branch_register.has(word)
               ? emulated()
               : refused("the kernel refuses a branch with pointer authentication");
  if (exception.has(word))
    return refused("the kernel refuses an instruction that raises an exception (svc, brk)");
  if (msr_register.has(word) || msr_immediate.has(word))
    return refused("the kernel refuses an instruction that writes a system register (msr)");
  if (hint.has(word)) return effect_on_hint(word);
  if (load_literal.has(word))
    return (word & simd_bit) != 0
               ? unsafe(
                     "the kernel runs a copy of this load relative to the program counter, which "
                     "reads other memory")
               : refused("the kernel refuses a load relative to the program counter");
  if (exclusive.has(word)) return refused("the kernel refuses exclusive loads and stores");
  if (sign_with_pc.has(word) || authenticate_with_pc.has(word))
    return unsafe(
        "the kernel runs a copy of this instruction, which signs or authenticates the return "
        "address with another program counter");
  if (memory_copy.has(word))
    return unsafe("the kernel runs a copy of one of the three instructions of a memory copy, which "
                  "belong together");
  return stepped();
}

bool is_prefix(std::uint32_t word) { return movprfx.has(word) || movprfx_predicated.has(word); }

bool is_exclusive_load(std::uint32_t word) {
  return exclusive.has(word) && !casp.has(word) && (word & load_bit) != 0;
}

bool is_exclusive_store(std::uint32_t word) {
  return exclusive.has(word) && !casp.has(word) && (word & load_bit) == 0;
}

// Whether the offset is between an exclusive load and its store. A breakpoint there clears the
// exclusive monitor, so the store always fails and the loop never ends. DDI 0487 B2.12.5 limits the
// distance.
bool is_inside_exclusive(Bytes function, std::uint64_t offset) {
  constexpr std::uint64_t max_distance = 32 * word_size;
  std::uint64_t at = offset;
  for (;;) {
    if (at < word_size || offset - at >= max_distance) return false;
    at -= word_size;
    const std::uint32_t word = *read_at<std::uint32_t>(function, at);
    if (is_exclusive_load(word)) break;
    if (is_exclusive_store(word) || clear_exclusive.has(word) || plain_ret.has(word)) return false;
  }
  for (std::uint64_t next = offset; next - offset < max_distance; next += word_size) {
    const auto word = read_at<std::uint32_t>(function, next);
    if (!word || is_exclusive_load(*word)) return false;
    if (is_exclusive_store(*word)) return true;
  }
  return false;
}

// A64. The offset is within the code.
ProbeEffect arm64_probe_effect(Bytes code, std::uint64_t offset) {
  const auto word = read_at<std::uint32_t>(code, offset);
  if (!word || offset % word_size != 0) return {};
  if (is_prefix(*word) ||
      (offset >= word_size && is_prefix(*read_at<std::uint32_t>(code, offset - word_size))))
    return unsafe("movprfx must run just before the next instruction, and a probe parts them");
  const ProbeEffect effect = effect_on_word(*word);
  if (effect.kind == ProbeEffect::Kind::safe && is_inside_exclusive(code, offset))
    return unsafe("between an exclusive load and its store a probe makes the store fail, for ever");
  return effect;
}

} // namespace

ProbeEffect probe_effect(Arch arch, Bytes code, std::uint64_t offset) {
  if (offset >= code.size()) return {};
  if (arch == Arch::x86_64 || arch == Arch::i386)
    return x86_probe_effect(arch, code.subspan(offset));
  if (arch == Arch::arm64) return arm64_probe_effect(code, offset);
  return {};
}

std::optional<OptimizedNop> optimized_nop(Arch arch, Bytes bytes) {
  if (arch != Arch::x86_64) return std::nullopt;
  if (is_long_nop(bytes)) return OptimizedNop::ten_bytes;
  const auto insn = X86Reader(arch, bytes).read();
  // The opcode is checked first, because decoding takes longer.
  if (!insn || !is_nop(*insn, bytes) || instruction_size(arch, bytes) != 5) return std::nullopt;
  return OptimizedNop::five_bytes;
}

} // namespace uprobectl::insn
