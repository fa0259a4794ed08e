// Which instructions a machine's code has, as far as they are known here.
#pragma once

#include "uprobectl/elf.hpp"
#include "uprobectl/insn.hpp"

namespace uprobectl {

// `thumb`: of ARM's two sets that one.
std::optional<InstructionSet> instruction_set(const elf::Machine& machine, bool thumb = false);

} // namespace uprobectl
