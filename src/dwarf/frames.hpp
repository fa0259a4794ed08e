// SPDX-License-Identifier: Apache-2.0
// The functions and source lines at an address: what llvm-symbolizer --inlines prints.
#pragma once

#include "dwarf/dwarf.hpp"

#include <string>
#include <vector>

namespace uprobectl::dwarf {

// A function that runs at an address, and the position in its source.
struct SourceFrame {
  std::string function;   // raw name as in symbol tables; empty if it is unknown
  std::string file;       // absolute unless the unit has no folder; empty if it is unknown
  std::uint32_t line = 0; // 0: the code belongs to no line, or the line is unknown
  std::uint32_t column = 0;
  bool is_inlined = false;  // into the function of the next frame
  std::uint64_t offset = 0; // of the address from the function's entry; 0 if it is inlined
};

// Frames of one address. A chain of inlined functions that is longer is cut at its outer end.
constexpr std::size_t max_source_frames = 256;

// Returns the functions at the address: the innermost inlined one first, the function that has the
// code last. The innermost position is that of the address, the others are those of the calls.
// For a return address pass the address of a byte of the call instruction. Empty if no unit has the
// address. If the entries of the unit cannot be read (see DebugInfo::warnings), one frame without
// the function.
std::vector<SourceFrame> frames_at(const DebugInfo& debug, VirtualAddress address);

} // namespace uprobectl::dwarf
