// SPDX-License-Identifier: Apache-2.0
// Where a function that is not optimized has written its parameters to its stack frame.
#pragma once

#include "dwarf/dwarf.hpp"

#include <expected>

namespace uprobectl::dwarf {

struct Prologue {
  VirtualAddress end;     // the first instruction after it
  elf::AddressRange code; // of the function, all of it
  // By parameter, as FunctionInfo::variables has them: whether it has a location list, which says
  // where the value is at each instruction. One expression is for the whole function, also where it
  // is not true yet.
  std::vector<bool> has_location_list;
};

// Finds the prologue of the function whose first instruction is at the address, as gdb does for a
// breakpoint at the function (gdb/symtab.c, skip_prologue_using_sal): up to the first row of the
// line table that ends a prologue (DWARF 5, 6.2.2), else up to the second address with a statement.
// Returns the reason, in static storage, if the function is optimized, in several pieces, or has a
// label in the prologue or at its end, which an indirect jump may lead to.
std::expected<Prologue, std::string_view> find_prologue(const DebugInfo& info,
                                                        VirtualAddress function);

} // namespace uprobectl::dwarf
