// SPDX-License-Identifier: Apache-2.0
// Linux arch/arm64/kernel/probes/decode-insn.c; encodings are those of the Arm A-profile A64
// instruction set (DDI 0602).
#include "insn/probe_effect.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

constexpr std::uint64_t word_size = 4; // bytes

using effect::emulated;
using effect::refused;
using effect::stepped;
using effect::wrong;

struct Encoding {
  std::uint32_t mask;
  std::uint32_t value;
  constexpr bool has(std::uint32_t word) const { return (word & mask) == value; }
};

constexpr Encoding branch{0x7c000000, 0x14000000}; // and bl
constexpr Encoding b_cond{0xff000010, 0x54000000};
constexpr Encoding bc_cond{0xff000010, 0x54000010};
constexpr Encoding cbz{0x7e000000, 0x34000000};       // and cbnz
constexpr Encoding tbz{0x7e000000, 0x36000000};       // and tbnz
constexpr Encoding cb_cc{0x7e000000, 0x74000000};     // compare and branch (FEAT_CMPBR)
constexpr Encoding ret_of_pc{0xff000000, 0x55000000}; // retaasppc, retabsppc
constexpr Encoding branch_register{0xfe000000, 0xd6000000};
constexpr Encoding plain_branch_register{0xff9ffc1f, 0xd61f0000}; // br, blr, ret
constexpr Encoding plain_ret{0xfffffc1f, 0xd65f0000};
constexpr Encoding exception{0xff000000, 0xd4000000}; // svc, hvc, smc, brk, hlt
constexpr Encoding msr_register{0xfff00000, 0xd5100000};
constexpr Encoding msr_immediate{0xfff8f01f, 0xd500401f}; // and cfinv, axflag, xaflag
constexpr Encoding hint{0xfffff01f, 0xd503201f};
constexpr Encoding adr{0x1f000000, 0x10000000}; // and adrp
constexpr Encoding load_literal{0x3b000000, 0x18000000};
constexpr std::uint32_t simd_bit = 1U << 26U;
constexpr Encoding exclusive{0x3f800000, 0x08000000}; // and casp
constexpr Encoding casp{0xbfa00000, 0x08200000};
constexpr std::uint32_t load_bit = 1U << 22U;
constexpr Encoding memory_copy{0x3b200c00, 0x19000400}; // cpy*, set* (FEAT_MOPS)
constexpr Encoding clear_exclusive{0xfffff0ff, 0xd503305f};

// Of the hints that the kernel lets a copy run (aarch64_insn_is_steppable_hint).
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
    return wrong("the kernel runs a copy of this branch, which goes to another place");
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
               ? wrong("the kernel runs a copy of this load relative to the program counter, which "
                       "reads other memory")
               : refused("the kernel refuses a load relative to the program counter");
  if (exclusive.has(word)) return refused("the kernel refuses exclusive loads and stores");
  if (memory_copy.has(word))
    return wrong("the kernel runs a copy of one of the three instructions of a memory copy, which "
                 "belong together");
  return stepped();
}

bool is_exclusive_load(std::uint32_t word) {
  return exclusive.has(word) && !casp.has(word) && (word & load_bit) != 0;
}

bool is_exclusive_store(std::uint32_t word) {
  return exclusive.has(word) && !casp.has(word) && (word & load_bit) == 0;
}

// Whether the place lies between an exclusive load and its store. A breakpoint between them takes
// the reservation away, so the store fails and the loop around them never ends. The architecture
// bounds how far they can lie apart (DDI 0487 B2.12.5).
bool is_inside_exclusive(Bytes function, std::uint64_t offset) {
  constexpr std::uint64_t furthest = 32 * word_size;
  std::uint64_t at = offset;
  for (;;) {
    if (at < word_size || offset - at >= furthest) return false;
    at -= word_size;
    const std::uint32_t word = *read_at<std::uint32_t>(function, at);
    if (is_exclusive_load(word)) break;
    if (is_exclusive_store(word) || clear_exclusive.has(word) || plain_ret.has(word)) return false;
  }
  for (std::uint64_t next = offset; next - offset < furthest; next += word_size) {
    const auto word = read_at<std::uint32_t>(function, next);
    if (!word || is_exclusive_load(*word)) return false;
    if (is_exclusive_store(*word)) return true;
  }
  return false;
}

} // namespace

ProbeEffect arm64_probe_effect(Bytes code, std::uint64_t offset) {
  const auto word = read_at<std::uint32_t>(code, offset);
  if (!word || offset % word_size != 0) return {};
  const ProbeEffect effect = effect_on_word(*word);
  if (effect.kind == ProbeEffect::Kind::right && is_inside_exclusive(code, offset))
    return wrong("between an exclusive load and its store a probe makes the store fail, for ever");
  return effect;
}

} // namespace uprobectl
