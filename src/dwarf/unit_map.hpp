// SPDX-License-Identifier: Apache-2.0
// The compile units of a file by address: .debug_aranges (DWARF 5, 6.1.2), and the ranges of the
// units that are not in it. LLVM has the same map (DWARFContext::getDebugAranges), but units of a
// damaged file that share a long list of ranges would fill the memory. Only this module includes
// this header.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::dwarf {

class Context;

class UnitMap {
public:
  // Reads .debug_aranges, and the first entry of the units that are not in it. If there are too
  // many ranges, the rest is not read, with a warning.
  explicit UnitMap(Context& context);

  // Returns the offset in .debug_info of the unit whose code has the address, the lowest of
  // several; nullopt if there is none.
  std::optional<std::uint64_t> unit_at(VirtualAddress address) const;

private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t unit = 0;
  };
  std::vector<Range> ranges_; // sorted; disjoint
};

} // namespace uprobectl::dwarf
