// SPDX-License-Identifier: Apache-2.0
// Machine instructions: where they begin and how they read. Decodes bytes with LLVM's disassemblers
// (x86-64, i386, arm64) and by hand where the rule is one line: arm64 and arm instructions have 4
// bytes, Thumb tells 2 from 4 by its first halfword (ARM DDI 0406C A6.1).
//
// A disassembler is made when it is first needed, once a thread; a program that needs none pays
// nothing. Any bytes may be given: hostile ones are no instruction at worst.
//
// Not supported, and said so: text for arm and Thumb; other architectures altogether. Data between
// instructions is not told from code: arm64, arm and Thumb take every word for an instruction.
#pragma once

#include "uprobectl/arch.hpp"

#include <vector>

namespace uprobectl {

// Bytes that hold any instruction (x86: at most 15, Intel SDM volume 2, 2.3.11).
inline constexpr std::uint64_t instruction_window = 16;

struct Instruction {
  std::uint64_t offset = 0; // from the start of the bytes that were decoded
  std::uint32_t size = 0;   // bytes
};

// Whether an instruction begins at a place inside a function.
enum class Boundary {
  yes,
  no,      // inside an instruction, or outside the function
  unknown, // bytes up to there could not be decoded, or the set is not supported
};

// Decodes from the start of a function up to the place. Bounded by the place: work is linear.
Boundary boundary_at(Arch arch, Bytes function, std::uint64_t offset);

// The start of the instruction that contains the place, for a message: nothing if unknown.
std::optional<Instruction> instruction_around(Arch arch, Bytes function, std::uint64_t offset);

// How many of the bytes their first instruction takes, prefixes included: to walk a function.
// Nothing where they begin with no instruction or end before it does.
std::optional<std::uint32_t> instruction_size(Arch arch, Bytes bytes);

// One line in the architecture's usual syntax (AT&T for x86, as objdump prints it), each run of
// tabs a single space; address is where the first byte lies, for branch targets and, in a comment
// at the end, for memory addressed relative to the instruction. Nothing where the bytes are no
// instruction or the set has no text.
std::optional<std::string> instruction_text(Arch arch, Bytes bytes, VirtualAddress address);

// When a jump is taken, as the registers before it say. Registers are numbered as the machine
// encodes them; 31 of arm64 reads as zero.
struct JumpCondition {
  enum class Test {
    always,
    flags, // the condition `code` of the architecture: x86 tttn, arm64 cond
    zero,
    not_zero,
    bit_clear, // the bit `code`
    bit_set,
    unknown, // needs more than the registers: jrcxz, loop, xbegin
  };
  Test test = Test::always;
  std::uint8_t code = 0;
  std::uint8_t tested = 0; // the register, of zero and the following
  std::uint8_t size = 8;   // bytes of it that count
};

// Where an indirect jump goes: to what a register holds, or the word at base + index * scale +
// displacement.
struct JumpSource {
  bool in_memory = false;
  std::optional<std::uint8_t> base = {}; // registers, as in JumpCondition
  std::optional<std::uint8_t> index = {};
  std::uint8_t scale = 1;
  std::int64_t displacement = 0;
};

// How control can leave a function, found by reading it from its start to its end.
struct FunctionExits {
  // Where its return instructions begin, prefixes included: from the function's start, ascending.
  // Not those that leave the kernel or change the code segment (iret, sysret, eret, lret).
  std::vector<std::uint64_t> returns;

  struct Jump {
    enum class Kind {
      jump,     // out of the function for certain: to the target, or to what the slot holds
      table,    // to a place of the function itself, as compilers write `switch`
      indirect, // through a register or memory; nothing says whether it stays in the function
    };
    std::uint64_t offset = 0; // from the function's start, prefixes included
    Kind kind = Kind::jump;
    bool by_form = false; // a table that only looks like one: a tail call could be written so, too
    // Something has moved the stack pointer since the jump before, as if the frame were taken down.
    bool moves_stack = false;
    JumpCondition condition = {};
    std::optional<VirtualAddress> target = {}; // outside the function; kind jump only
    std::optional<VirtualAddress> slot = {};   // the word with the target, kind jump only: of the
                                               // GOT, mostly
    std::optional<JumpSource> source = {};     // kinds table and indirect, where it can be told
  };
  std::vector<Jump> jumps_out;   // by offset
  std::vector<Jump> jumps_again; // to the function's first byte: a loop, or a call of itself

  // Where bytes lie that are no instruction, or one that the function's end cuts off. On x86 what
  // follows is not known, it was not read; arm64 goes on with the next word.
  std::vector<std::uint64_t> undecodable;
  bool runs_on = false; // behind its last instruction comes that of another function
};

// Nothing for sets that LLVM does not decode here: arm and Thumb. The address is that of the
// function's first byte. Whether a jump through a register is one of a table is a matter of form:
// `notrack`, an index, an address that is a sum, a register that the function must restore before a
// tail call (System V AMD64 3.2.1, AAPCS64 6.1.1).
std::optional<FunctionExits> function_exits(Arch arch, Bytes function, VirtualAddress address);

// What a uprobe at an instruction does to the program that runs over it.
struct ProbeEffect {
  enum class Kind {
    right,   // the program goes on as it would without the probe
    refused, // the kernel does not place the probe
    wrong,   // the kernel places it, and the program computes something else, crashes or hangs
  };
  Kind kind = Kind::right;
  std::string_view reason = {}; // why it is not right; static storage
  // The kernel does the instruction's work itself. Otherwise it runs a copy of it with a trap
  // behind, which costs ten times as much or more.
  bool emulated = false;
};

// How much of a function some code is.
enum class CodeExtent { function, part };

// The effect of a probe at the offset of some code, best of the whole function: what is around a
// place can decide (exclusive loads and stores of arm64, nops of x86-64 that become calls). The
// offset must be where an instruction begins. Right for arm and Thumb, whose rules are not known.
//
// The rules are those of Linux 6.1 to 6.18 (arch/x86/kernel/uprobes.c,
// arch/arm64/kernel/probes/decode-insn.c); docs/instructions.md has them as a table, which a test
// finds by running every form.
ProbeEffect probe_effect(Arch arch, Bytes code, std::uint64_t offset,
                         CodeExtent extent = CodeExtent::function);

} // namespace uprobectl
