// SPDX-License-Identifier: Apache-2.0
// Compares code of two builds.
#pragma once

#include "uprobectl/insn.hpp"

namespace uprobectl::insn {

// Whether both are the same instructions, apart from what they address relative to themselves:
// targets of direct calls and jumps, data (rip-relative operands; adr, adrp and the add, load or
// store that completes its address; literal loads). Those change if only other code or data moved.
// The last instruction may be truncated. Bytes that do not decode are compared as they are, as on
// architectures without a disassembler (arm, Thumb).
bool is_same_code(Arch arch, Bytes one, Bytes other);

} // namespace uprobectl::insn
