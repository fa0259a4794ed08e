// The two halves of probe_effect(), by architecture.
#pragma once

#include "uprobectl/insn.hpp"

namespace uprobectl {

// The offset is within the code.
ProbeEffect x86_probe_effect(InstructionSet set, Bytes code, std::uint64_t offset,
                             CodeExtent extent);
ProbeEffect arm64_probe_effect(Bytes code, std::uint64_t offset);

} // namespace uprobectl
