// SPDX-License-Identifier: Apache-2.0
// What an instruction form leaves behind, and the comparison of such results. No part of it runs
// anything: unit tests compare made-up results of processors that are not at hand.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace forms {

using Code = std::vector<std::uint8_t>;

struct Outcome {
  static constexpr std::size_t registers = 40;
  std::uint64_t ending = 0;  // 1: after the code; 2: where its branch goes; 100 + a signal
  std::uint64_t address = 0; // of a signal
  std::uint64_t general[registers] = {};
  std::uint64_t flags = 0;
  std::uint64_t vectors[64] = {}; // hashes of vector registers and the like
  std::uint64_t data = 0;         // hash of the memory
  std::uint64_t probed = 0;       // the kernel has put its breakpoint there
};

// x86-64: a near call through memory or a register, ff /2.
inline bool is_indirect_call(const Code& code) {
  std::size_t at = 0;
  const auto is_prefix = [](unsigned byte) {
    return (byte & 0xf0U) == 0x40 || byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e ||
           (byte >= 0x64 && byte <= 0x67) || byte == 0xf0 || byte == 0xf2 || byte == 0xf3;
  };
  while (at < code.size() && is_prefix(code[at])) ++at;
  return at + 1 < code.size() && code[at] == 0xff && (code[at + 1] & 0x38U) == 0x10;
}

// Clears the 8 bytes below the stack pointer if an indirect call has ended the program, before its
// memory (which is at `address`) is hashed. If the target is not canonical, processors of Intel
// fault at the call: the stack pointer is as before, but the return address may be stored below it.
// With a probe that is the address after the copy. Nobody reads it: a call overwrites it. Those of
// AMD fault at the target, so the return address is at the stack pointer, and stays in the hash.
inline void clear_unread(const Code& code, const Outcome& outcome, std::uint64_t address,
                         std::span<std::uint8_t> memory) {
  constexpr std::size_t pushed = 8;
  constexpr std::size_t stack_pointer = 4;
  const std::uint64_t above = outcome.general[stack_pointer] - address;
  if (outcome.ending != 100 + SIGSEGV || !is_indirect_call(code)) return;
  if (above < pushed || above > memory.size()) return;
  std::memset(memory.data() + above - pushed, 0, pushed);
}

// Whether all that is the same in two runs without a probe is so in one with a probe. `varies`: the
// registers are other ones each time.
inline bool is_same(bool varies, const Outcome& one, const Outcome& other, const Outcome& probed) {
  if (varies)
    return one.ending == probed.ending && one.flags == probed.flags && one.data == probed.data;
  const auto* const a = reinterpret_cast<const std::uint64_t*>(&one);
  const auto* const b = reinterpret_cast<const std::uint64_t*>(&other);
  const auto* const c = reinterpret_cast<const std::uint64_t*>(&probed);
  for (std::size_t i = 0; i < offsetof(Outcome, probed) / 8; ++i)
    if (a[i] == b[i] && a[i] != c[i]) return false;
  return true;
}

} // namespace forms
