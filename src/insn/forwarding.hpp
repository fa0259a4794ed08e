// SPDX-License-Identifier: Apache-2.0
// Tells code that only passes a call on from code that does work of its own.
#pragma once

#include "uprobectl/insn.hpp"

namespace uprobectl::insn {

// Whether all that the code can do is to compute registers, change arguments on the stack, and
// jump: it calls nothing, writes no other memory and has no loop. False if it does not decode.
// `address` is that of the first byte.
bool only_forwards(Arch arch, Bytes function, VirtualAddress address);

} // namespace uprobectl::insn
