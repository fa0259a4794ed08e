// The registers that the built-in program sees on the machine that this runs on, and which of them
// carry the arguments of calls. Numbers are those of bpf/programs/registers.h, names in their order
// are register_names() of events.hpp.
#pragma once

#include "uprobectl/events/plan.hpp"

namespace uprobectl {

// "rax", on x86-64 also as "ax", or "eax" as 32-bit code calls it.
std::optional<std::uint32_t> register_number(std::string_view name);
std::uint32_t instruction_pointer(); // its number

// How calls of some code pass integers and pointers.
struct CallingConvention {
  std::span<const std::uint32_t> argument_registers; // the first ones, in order
  bool has_stack_arguments = true;                   // the others lie on the stack ...
  std::int64_t first_on_stack = 0;                   // so far above the stack pointer, at entry
  std::uint32_t slot = 8;                            // bytes from one to the next
  std::uint32_t pointer_size = 8;
  std::uint32_t stack_pointer = 0; // register numbers
  std::uint32_t return_register = 0;
};

// Nothing where this machine's kernel cannot probe such code.
std::optional<CallingConvention> calling_convention(CodeKind kind);

} // namespace uprobectl
