// SPDX-License-Identifier: Apache-2.0
// The tables of LLVM's x86 disassembler for rare opcodes, which are not in the program's file.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl::insn {

// Returns the compressed tables that src/insn/packed_tables.py has written.
Bytes packed_x86_tables();

// Fills the tables, once: 0.6 million instructions and 107 page faults. Does nothing in programs
// that are linked without src/cli/startup.ld: they have the tables as LLVM's archives do.
// Thread-safe.
void fill_packed_tables();

} // namespace uprobectl::insn
