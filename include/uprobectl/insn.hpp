// SPDX-License-Identifier: Apache-2.0
// Decodes machine instructions: their boundaries, their text, the exits of a function and the
// effect of a uprobe. Uses LLVM's disassemblers (x86-64, i386, arm64). Instruction sizes of arm64,
// arm (4 bytes) and Thumb (2 or 4, by the first halfword, ARM DDI 0406C A6.1) need no disassembler.
//
// A disassembler is created at its first use, one per thread. Input bytes need not be trusted:
// invalid ones do not decode.
//
// Unsupported: the text of arm and Thumb instructions; any other architecture. Data between
// instructions is not detected by most functions: on arm64, arm and Thumb every word counts as an
// instruction.
#pragma once

#include "uprobectl/arch.hpp"

#include <span>
#include <vector>

namespace uprobectl::insn {

// Bytes that suffice for any instruction (x86: at most 15, Intel SDM volume 2, 2.3.11).
inline constexpr std::uint64_t max_instruction_size = 16;

struct Instruction {
  std::uint64_t offset = 0; // from the start of the decoded bytes
  std::uint32_t size = 0;   // bytes
};

// Whether an instruction begins at an offset of a function.
enum class Boundary {
  yes,
  no,      // inside an instruction, or outside the function
  unknown, // the bytes before the offset do not decode, or the architecture is not supported
};

// Decodes from the start of the function up to the offset; takes time linear in the offset.
Boundary boundary_at(Arch arch, Bytes function, std::uint64_t offset);

// Returns the instruction that contains the offset, for a message; nullopt if it is unknown.
std::optional<Instruction> instruction_around(Arch arch, Bytes function, std::uint64_t offset);

// Returns the size of the first instruction of the bytes, prefixes included. Returns nullopt if it
// is invalid or truncated.
std::optional<std::uint32_t> instruction_size(Arch arch, Bytes bytes);

// Returns the size of the instructions at the start of the code that change nothing: marks of jump
// targets (endbr64, endbr32, bti) and nops.
std::uint64_t entry_padding(Arch arch, Bytes code);

// Returns the first instruction as one line in the architecture's usual syntax (AT&T for x86, as
// objdump prints it), with single spaces. `address` is that of the first byte: branch targets are
// computed from it, and so is memory addressed relative to the instruction, in a comment at the
// end. Returns nullopt if the bytes are not a valid instruction or the architecture has no
// disassembler.
std::optional<std::string> instruction_text(Arch arch, Bytes bytes, VirtualAddress address);

// The condition under which a jump is taken, as a test of the registers before it. Registers are
// numbered as in instruction encodings; 31 is the zero register on arm64.
struct JumpCondition {
  enum class Test {
    always,
    flags, // the condition `code` of the architecture: x86 tttn, arm64 cond
    zero,
    not_zero,
    bit_clear, // the bit `code`
    bit_set,
    unknown, // not a plain test of registers: jrcxz, loop, xbegin
  };
  Test test = Test::always;
  std::uint8_t code = 0;
  std::uint8_t tested = 0; // the register that zero, not_zero, bit_clear and bit_set test
  std::uint8_t size = 8;   // tested bytes of it
};

// The operand of an indirect jump: a register that holds the target, or the memory at
// base + index * scale + displacement.
struct JumpSource {
  bool in_memory = false;
  std::optional<std::uint8_t> base = {}; // registers, as in JumpCondition
  std::optional<std::uint8_t> index = {};
  std::uint8_t scale = 1;
  std::int64_t displacement = 0;
};

// The instructions through which control can leave a function, found by a linear sweep.
struct FunctionExits {
  // Offsets of return instructions, prefixes included, ascending. Returns that leave the kernel or
  // change the code segment (iret, sysret, eret, lret) are not included.
  std::vector<std::uint64_t> returns;

  struct Jump {
    enum class Kind {
      jump,     // leaves the function, to the target or to the address in the slot
      table,    // stays in the function: the jump table of a `switch`
      indirect, // through a register or memory; unknown whether it stays in the function
    };
    std::uint64_t offset = 0; // from the function's start, prefixes included
    Kind kind = Kind::jump;
    // The kind table is a guess from the form of the jump: a tail call can have the same form.
    bool is_heuristic = false;
    // The stack pointer was raised since the previous jump, as a function epilogue does.
    bool moves_stack = false;
    JumpCondition condition = {};
    std::optional<VirtualAddress> target = {}; // outside the function; kind jump only
    std::optional<VirtualAddress> slot = {};   // the word with the target, mostly in the GOT; kind
                                               // jump only
    std::optional<JumpSource> source = {};     // kinds table and indirect, if known
  };
  std::vector<Jump> jumps_out;      // by offset
  std::vector<Jump> jumps_to_entry; // to the function's first byte: a loop or a recursive call

  // Offsets of invalid or truncated instructions. Decoding stops there on x86 and continues with
  // the next word on arm64.
  std::vector<std::uint64_t> undecodable;
  bool falls_through = false; // the last instruction continues into the next function

  // Some of these exits may be in data: a branch leads into the middle of an instruction, bytes do
  // not decode, or the function refers to an address in itself and has an exit that no direct
  // branch leads to, in code that follows a jump or return.
  bool may_be_in_data = false;
};

// Finds the exits of a function whose first byte is at the address. Returns nullopt for
// architectures without a disassembler (arm, Thumb). A jump through a register counts as a jump
// table if it has a `notrack` prefix, an index register, an address computed as a sum, or a
// callee-saved register, which a tail call cannot use (System V AMD64 3.2.1, AAPCS64 6.1.1).
std::optional<FunctionExits> function_exits(Arch arch, Bytes function, VirtualAddress address);

// Finds the exits without those in data: in bytes that the function loads, or that no direct branch
// from the function's first byte or one of the `entries` leads to and that do not decode up to the
// next instruction. Returns nullopt also if the function may reach more of its code, as by the jump
// table of a `switch`.
std::optional<FunctionExits> reached_exits(Arch arch, Bytes function, VirtualAddress address,
                                           std::span<const VirtualAddress> entries);

// Whether the code is a return thunk of x86, as GCC's -mfunction-return=thunk makes: a jump to it
// is a return. Pass the bytes from the code's start on, 64 if there are as many.
bool is_return_thunk(Arch arch, Bytes code);

// The effect of a uprobe at an instruction on the probed program.
struct ProbeEffect {
  enum class Kind {
    safe,    // the program behaves as without the probe
    refused, // the kernel refuses the probe
    unsafe,  // the kernel accepts the probe, and the program misbehaves, crashes or hangs
  };
  Kind kind = Kind::safe;
  std::string_view reason = {}; // why it is refused or unsafe; static storage
  // The kernel emulates the instruction. Otherwise it single-steps a copy out of line (XOL), which
  // costs at least ten times as much.
  bool emulated = false;
};

// Returns the effect of a probe at an offset of the code, which must be the start of an
// instruction. Pass the whole function if possible: the surrounding code can decide (exclusive
// loads and stores of arm64). Returns safe for arm and Thumb, whose rules are not implemented.
//
// The rules are those of Linux 6.1 to 6.18 (arch/x86/kernel/uprobes.c,
// arch/arm64/kernel/probes/decode-insn.c). docs/instructions.md lists them; a native test verifies
// the table by probing every instruction form. Nops that a kernel replaces (optimized_nop()) count
// as nops.
ProbeEffect probe_effect(Arch arch, Bytes code, std::uint64_t offset);

// A nop of x86-64 that a kernel replaces by a call at the first hit of a probe ("optimized
// uprobes").
enum class OptimizedNop {
  // Any nop of this size, also `jmp` to the next instruction: Linux commit ba2bfc97b462
  // ("uprobes/x86: Add support to optimize uprobes") in v6.18.
  five_bytes,
  // 66 2e 0f 1f 84 and five bytes of its operand, instead: commit 554ba38456da ("uprobes/x86: Move
  // optimized uprobe from nop5 to nop10") in v7.2. Other kernels refuse a probe there.
  ten_bytes,
};

// The nops that one kernel replaces.
struct OptimizedNops {
  bool five_bytes = false;
  bool ten_bytes = false;

  bool has(OptimizedNop nop) const {
    return nop == OptimizedNop::five_bytes ? five_bytes : ten_bytes;
  }
};

// Returns which nop the bytes begin with; nullopt for other instructions and architectures.
std::optional<OptimizedNop> optimized_nop(Arch arch, Bytes bytes);

} // namespace uprobectl::insn
