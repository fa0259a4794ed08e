// SPDX-License-Identifier: Apache-2.0
// Forms of machine code that the bytes alone show, without a decoder. Each function takes
// every architecture; what it returns for those that it does not know is said there.
#pragma once

#include "uprobectl/insn.hpp"

#include <functional>

namespace uprobectl::insn {

// Whether the code may begin with a jump, also after a landing pad. Saves decoding most functions;
// true for unknown architectures.
bool may_begin_with_jump(Arch arch, Bytes code);

// Whether an entry of the jump table of clang's CFI may look so. LLVM fills the entries of x86 up
// with breakpoints (LowerTypeTests.cpp), other functions with nops.
bool may_be_jump_table_entry(Arch arch, Bytes entry);

// Whether the instruction makes room on the stack, as prologues begin. No indirect jump of the
// function leads there: the frame is on the stack when it is executed. x86-64.
bool begins_frame(Arch arch, Bytes code);

// The first instruction of a function that has not set up its frame, as Linux recognizes it
// (is_uprobe_at_func_entry() of arch/x86/events/core.c).
enum class KnownEntry : std::uint8_t { none, push_frame_pointer, landing_pad };
// `none` for other code and architectures. x86-64.
KnownEntry known_entry(Arch arch, Bytes code);

// Whether one execution can be several hits: a string instruction with a repeat prefix, or a short
// jump to itself. x86-64.
bool repeats(Arch arch, Bytes code);

// Visits the targets of all calls and jumps with a 32-bit distance in the code, which begins at the
// address. Does not decode, which would take long: whatever looks like `call`, `jmp` or `jcc`
// counts. x86-64.
void each_far_target(Arch arch, Bytes code, VirtualAddress address,
                     const std::function<void(VirtualAddress)>& visit);

// Returns the DWARF number of the register with the return address if the code begins with a return
// instruction; the stack pointer's if the address is on the stack. x86-64: ret, also with a rep or
// bnd prefix. arm64: ret Xn; retaa and retab, which always use the link register.
std::optional<std::uint8_t> return_register_at(Arch arch, Bytes code);

// A jump or call that another program has written over code.
struct WrittenJump {
  bool is_call = false;
  std::uint64_t target = 0;
};
// Reads a word of the process's memory; nullopt if it cannot be read.
using WordReader = std::function<std::optional<std::uint64_t>(std::uint64_t address)>;
// The forms that hooks have. Nullopt for other code.
std::optional<WrittenJump> written_jump_at(Arch arch, Bytes code, std::uint64_t address,
                                           const WordReader& read_word);

} // namespace uprobectl::insn
