// From one frame to its caller.
#pragma once

#include "unwind/memory.hpp"
#include "unwind/unwind_data.hpp"

namespace uprobectl::stacks {

// Why a way to the caller does not lead there.
struct NoCaller {
  End end = End::no_unwind_data;
  std::uint64_t address = 0; // of memory that was not saved
  bool is_certain = false;   // another way could only lead past the caller
};

// The registers as the caller has them, the pc as it was saved.
using Caller = std::expected<Registers, NoCaller>;

// Makes the registers those of the caller; leaves them as they are where there is none.
// interrupted: the frame has called nothing, so its link register is its own.
std::optional<NoCaller> by_row(const Step& step, Registers& registers, const Memory& memory,
                               bool interrupted);

// By what the kernel saved for a signal's handler; the stack pointer is where that had it when it
// was entered.
Caller by_signal_frame(const Registers& registers, const Memory& memory);

// The frame record at the frame pointer: its predecessor and the return address, on both machines.
Caller by_frame_pointer(const Registers& registers, const Memory& memory);

} // namespace uprobectl::stacks
