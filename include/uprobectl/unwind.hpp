// SPDX-License-Identifier: Apache-2.0
// User stacks: from the registers of a thread and bytes of its memory, as they were at one instant,
// to the frames it was in. Callers are found by call frame information (DWARF 5, 6.4; .eh_frame:
// Linux Standard Base core specification 5.0, 10.6) of the files that the process maps; where there
// is none by the link register, once, and by frame pointers. x86-64 and arm64, whichever of the two
// this program itself runs on.
//
// Not supported, and said so: 32-bit arm (.ARM.exidx) and x86, every other machine.
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

// Bytes of memory, as they were when the registers were.
struct MemoryPiece {
  std::uint64_t address = 0;
  Bytes bytes;
};

// How a frame was found.
enum class FoundBy : std::uint8_t {
  registers,          // it is where the thread was
  frame_data,         // call frame information
  signal_frame,       // what the kernel saved when it interrupted the thread
  return_instruction, // the callee was about to return there
  function_entry,     // the callee had just been called, and has no call frame information
  link_register,      // guessed: arm64, in code without call frame information
  frame_pointer,      // guessed, likewise
  kernel_walk         // the kernel's own, along frame pointers
};
std::string_view to_string(FoundBy found_by); // "frame_data"
// Found by what code mostly does, and nothing says that it has done so there.
constexpr bool is_guess(FoundBy found_by) {
  return found_by == FoundBy::link_register || found_by == FoundBy::frame_pointer;
}

struct Frame {
  std::uint64_t pc = 0; // run-time address; tags and signatures stripped, not moved back
  FoundBy found_by = FoundBy::registers;
  // Of a caller: inside of the call before pc. What was interrupted lies at pc itself.
  std::optional<ModuleAddress> place;

  // What the place is called; null if it is in no module.
  std::shared_ptr<const symbolize::Frame> symbolized() const;
};

// Why there is no further frame.
enum class End : std::uint8_t {
  outermost,         // the thread began here
  not_told,          // frames of another, who has not said it: the kernel's walk by frame pointers
  no_mapping,        // the caller's address, or that of the last frame, is in no executable mapping
  no_unwind_data,    // of the last frame's code
  stack_too_short,   // what the last frame saved is in no byte that was given
  corrupt,           // the unwind information
  no_return_address, // the last frame's function has called another and not kept it
  unknown_register,  // the last frame's caller follows from a register that is not known
  return_probe,      // the kernel has put its own address in place of the caller's
  loop,              // frames repeat without end
  too_many           // frames
};

std::string_view to_string(End end); // "stack_too_short"

struct Stack {
  std::vector<Frame> frames; // the innermost first; one at least, if the registers have a pc
  End end = End::outermost;
  std::uint64_t address = 0; // no_mapping: what is not mapped; stack_too_short: what is missing
};

// The return address that a return probe has replaced.
struct KnownReturn {
  std::uint64_t stack_pointer = 0; // when the function was entered
  std::uint64_t address = 0;
};

struct UnwindLimits {
  // The kernel copies at most 64 KiB of a stack, where no more frames than this have room.
  std::size_t max_frames = 4096;
  // The thread has just entered the function it is in, as at a probe of its first instruction.
  bool at_function_entry = false;
  // Where one is missing the stack ends with return_probe.
  std::span<const KnownReturn> known_returns = {};
};

// The bits of a code address that say where it is: of arm64 those above may be a signature (pointer
// authentication) or a tag. Derived from how high anything is mapped.
std::uint64_t code_mask(const AddressSpace& space, Arch arch);

// What is read of the modules' files is remembered in the address space's cache.
Stack unwind_stack(const Registers& registers, std::span<const MemoryPiece> memory,
                   AddressSpace& space, const UnwindLimits& limits = {});

// Why there is no further frame, for people: "0x7f12 is in no executable mapping".
std::string explain_end(const Stack& stack);

} // namespace uprobectl::unwind
