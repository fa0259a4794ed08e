// SPDX-License-Identifier: Apache-2.0
// Unwinds user stacks: computes the frames of a thread from its registers and a copy of its stack.
// Callers are found by the call frame information of the mapped files (DWARF 5, 6.4; .eh_frame: LSB
// core 5.0, 10.6). Code without it is unwound by frame pointers, the innermost frame also by the
// link register. Stacks of x86-64 and arm64 can be unwound on either machine; others, including
// 32-bit arm (.ARM.exidx) and x86, are not supported.
#pragma once

#include "uprobectl/symbolize.hpp"
#include "uprobectl/unwind/registers.hpp"

namespace uprobectl::unwind {

using symbolize::AddressSpace;
using symbolize::FileSource;
using symbolize::MappedObject;
using symbolize::Module;
using symbolize::ModuleAddress;
using symbolize::ModuleCache;

// A copy of a range of memory, taken together with the registers.
struct MemoryPiece {
  std::uint64_t address = 0;
  Bytes bytes;
};

// How a frame was found.
enum class FoundBy : std::uint8_t {
  registers,          // the innermost frame: the thread's pc
  frame_data,         // by call frame information
  signal_frame,       // by the registers that the kernel saved for a signal handler
  return_instruction, // the callee was at its return instruction
  function_entry,     // the callee was at its first instruction
  link_register,      // a guess: the callee has no call frame information (arm64)
  frame_pointer,      // a guess: the callee has no call frame information
  kernel_walk         // by the kernel, which follows frame pointers
};
std::string_view to_string(FoundBy found_by); // "frame_data"
// True if the frame was found by a convention that the callee may not follow.
constexpr bool is_guess(FoundBy found_by) {
  return found_by == FoundBy::link_register || found_by == FoundBy::frame_pointer;
}

struct Frame {
  std::uint64_t pc = 0; // run-time address, without tag and signature; a return address in callers
  FoundBy found_by = FoundBy::registers;
  // 0: the function that has the code; 1: the function that was inlined into it there, and so on
  // (see add_inlined_frames). An index of symbolize::Frame::positions.
  std::uint16_t inline_depth = 0;
  // The code of the frame: in a caller the call instruction before pc, otherwise pc itself. nullopt
  // if no mapping contains it.
  std::optional<ModuleAddress> code;
  // The JIT-compiled function at `code`, from the perf map or jitdump file of its compiler. Null
  // for all other code.
  std::shared_ptr<const symbolize::Function> jit = {};

  // Returns the symbolized code, or null if it is not in a module.
  std::shared_ptr<const symbolize::Frame> symbolized() const;
};

// Why a stack has no further frame.
enum class End : std::uint8_t {
  outermost,         // complete: the thread's first function
  unknown,           // the kernel walked the stack, and does not report why it stopped
  no_mapping,        // the address of the caller, or of the last frame, is not in executable memory
  no_unwind_data,    // the last frame's code has no unwind information
  stack_too_short,   // the copy of the stack lacks bytes that the last frame saved
  corrupt,           // the unwind information of the last frame is invalid
  no_return_address, // the last frame's function has not saved its return address
  unknown_register,  // the caller depends on a register whose value is unknown
  return_probe,      // a return probe has replaced the return address
  loop,              // the frames repeat without end
  too_many           // UnwindLimits::max_frames was reached
};

std::string_view to_string(End end); // "stack_too_short"

struct Stack {
  std::vector<Frame> frames; // the innermost first; at least one if the registers contain a pc
  End end = End::outermost;
  // The address that is not mapped (no_mapping), or not in the copy (stack_too_short); otherwise 0.
  std::uint64_t address = 0;
  // The text that explain_end() returned when the run was saved. Empty: it follows from the members
  // above.
  std::string explanation = {};
};

// A return address that a return probe has replaced.
struct KnownReturn {
  std::uint64_t stack_pointer = 0; // at the function's entry
  std::uint64_t address = 0;       // the original return address
};

// The limits of unwinding, and what the caller knows of the stack.
struct UnwindLimits {
  // The default suffices for 64 KiB, the most that the kernel copies of a stack.
  std::size_t max_frames = 4096;
  // The innermost function is at its first instruction, as at an entry probe.
  bool at_function_entry = false;
  // If a replaced return address is not among these, the stack ends with End::return_probe.
  std::span<const KnownReturn> known_returns = {};
};

// Returns a mask of the significant bits of a code address. On arm64 the bits above may contain a
// signature (pointer authentication) or a tag. The mask is derived from the highest mapping.
std::uint64_t code_mask(const AddressSpace& space, Arch arch);

// Unwinds the stack. Data read from the mapped files is kept in the address space's module cache.
Stack unwind_stack(const Registers& registers, std::span<const MemoryPiece> memory,
                   AddressSpace& space, const UnwindLimits& limits = {});

// Inserts a frame for each function that was inlined at a frame's pc, if the module cache reads
// source lines.
void add_inlined_frames(Stack& stack);

// Returns why there is no further frame, as a message: "0x7f12 is in no executable mapping".
std::string explain_end(const Stack& stack);

} // namespace uprobectl::unwind
