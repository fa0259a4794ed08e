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

#include "uprobectl/base.hpp"

namespace uprobectl {

enum class InstructionSet { x86_64, i386, arm64, arm, thumb };

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
Boundary boundary_at(InstructionSet set, Bytes function, std::uint64_t offset);

// The start of the instruction that contains the place, for a message: nothing if unknown.
std::optional<Instruction> instruction_around(InstructionSet set, Bytes function,
                                              std::uint64_t offset);

// How many of the bytes their first instruction takes, prefixes included: to walk a function.
// Nothing where they begin with no instruction or end before it does.
std::optional<std::uint32_t> instruction_size(InstructionSet set, Bytes bytes);

// One line in the architecture's usual syntax (AT&T for x86, as objdump prints it), each run of
// tabs a single space; address is where the first byte lies, for branch targets and, in a comment
// at the end, for memory addressed relative to the instruction. Nothing where the bytes are no
// instruction or the set has no text.
std::optional<std::string> instruction_text(InstructionSet set, Bytes bytes,
                                            VirtualAddress address);

} // namespace uprobectl
