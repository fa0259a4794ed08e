// SPDX-License-Identifier: Apache-2.0
// Positions in the source of one unit. Only this module includes this header.
#pragma once

#include "dwarf/context.hpp"
#include "dwarf/frames.hpp"

namespace uprobectl::dwarf {

class Positions {
public:
  // `unit` is the one of the file itself, also if its entries are in a split unit.
  Positions(Context& context, llvm::DWARFUnit& unit) : context_(context), unit_(unit) {}

  // Sets file, line and column of the row that covers the address.
  void set_from_address(SourceFrame& frame, VirtualAddress address) const;
  // Sets those of the call that was replaced by the inlined function.
  void set_from_call(SourceFrame& frame, const Die& inlined) const;

private:
  Context& context_;
  llvm::DWARFUnit& unit_;
};

// Returns the inlined functions around an entry, and last the function that has the code. Without
// the last one if the entries are nested too deeply.
std::vector<Die> inline_chain(Die die);

} // namespace uprobectl::dwarf
