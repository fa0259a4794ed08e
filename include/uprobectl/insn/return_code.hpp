// SPDX-License-Identifier: Apache-2.0
// Code that only returns to the caller, which functions jump to: a jump there is a return.
#pragma once

#include "uprobectl/arch.hpp"

#include <functional>
#include <optional>

namespace uprobectl::insn {

// Describes code that only returns: it may restore registers, and does not call, branch or change
// registers that results are in.
struct ReturnCode {
  std::uint64_t raises_stack = 0; // by these bytes, before the return instruction
  bool stores = false;            // to memory, but not to the stack
  // The encoding of a register that the stack pointer is set to; it is raised from there.
  std::optional<std::uint8_t> stack_from = {};

  bool operator==(const ReturnCode&) const = default;
};

// Reads the code at an address: 64 bytes if there are as many, none outside of the file's code.
using ReadCode = std::function<Bytes(VirtualAddress)>;

// Recognizes return thunks of x86 (GCC's -mfunction-return=thunk) and ends of functions that
// compilers have outlined, of at most 32 instructions. Follows jumps. Returns nullopt for other
// code and for architectures without a disassembler (arm, Thumb).
std::optional<ReturnCode> find_return_code(Arch arch, VirtualAddress address, const ReadCode& read);

} // namespace uprobectl::insn
