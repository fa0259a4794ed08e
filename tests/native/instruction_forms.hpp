// SPDX-License-Identifier: Apache-2.0
// The parts of the instruction form test that depend on the architecture.
#pragma once

#include "instruction_outcome.hpp"
#include "uprobectl/insn.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <ucontext.h>
#include <vector>

// Of the assembly code that runs a form: where a form ends, where it goes on after a signal, and
// what has come of it.
extern "C" {
extern const char forms_ending_1[], forms_ending_2[], forms_resume[];
void forms_enter(std::uint64_t address);
extern std::uint64_t forms_ending, forms_host_stack;
}

namespace forms {

inline std::uint64_t address_of(const char* label) {
  return reinterpret_cast<std::uint64_t>(label);
}

// Where things are while a form runs. Fixed, because code refers to data relative to itself.
inline constexpr std::uint64_t code_address = 0x20000000;
inline constexpr std::uint64_t data_address = 0x28000000;
inline constexpr std::uint64_t data_size = 0x4000;
// Where the pointers of the initial registers and operands relative to the code point.
inline constexpr std::uint64_t operand_address = data_address + 0x1000;
inline constexpr std::uint64_t stack_address = data_address + 0x3000;
inline constexpr std::uint64_t slot_size = 64;

// One instruction with what it needs around it.
struct Form {
  Code code;                   // the instruction, or several
  std::uint64_t probed = 0;    // where in the code the probe goes
  std::uint64_t operand = 0;   // the word at operand_address, if not 0
  std::uint64_t stack_top = 0; // the word at the top of the stack, if not 0
  std::uint64_t second_of_stack = 0;
  std::uint64_t displacement =
      0;               // where the code has 4 bytes that lead to operand_address; 0: none
  bool varies = false; // its registers are other ones each time
};

extern const uprobectl::Arch arch;

// Those with something special about them first, then of the systematic ones every Nth: an emulated
// machine takes too long for all.
std::vector<Form> all(std::size_t every);

// The form as it is to be at the address, and after it the branches to the two endings.
Code slot(const Form& form, std::uint64_t address);

// Whether the kernel has put its breakpoint there.
bool is_breakpoint(const std::uint8_t* code, const Form& form);

void prepare();                                    // once in a process that runs forms
void run(std::uint64_t address, Outcome& outcome); // memory is already as it is to be
// Whether a kernel can return to a program in this state here. Some hosts of virtual machines send
// a program SIGSEGV if the kernel returns to it with a stack pointer that is not canonical.
bool can_be_resumed(const Outcome& outcome);
// Whether instructions that probe_effect() refuses for this reason can go wrong on this processor.
bool can_go_wrong(std::string_view reason);
// Who made the processor, as the columns of instruction_forms.md name it: "AMD", "Intel", "QEMU".
std::string processor();
// In the signal handler: what was interrupted, and where it goes on.
void interrupted(int signal, ucontext_t& context);

} // namespace forms
