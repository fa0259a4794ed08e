// SPDX-License-Identifier: Apache-2.0
// The functions and inlined copies that contain addresses. Only this module includes this header.
#pragma once

#include "dwarf/context.hpp"

namespace uprobectl::dwarf {

// The entries of functions and inlined copies whose code contains an address, the outermost first.
using Scopes = std::vector<Die>;

// Returns the scopes of each address, in the order of the addresses, which are sorted. Reads the
// entries of the unit once, without recursion: their depth is not bounded. All are empty if the
// split unit cannot be read.
std::vector<Scopes> scopes_at(Context& context, llvm::DWARFUnit& unit,
                              std::span<const std::uint64_t> addresses);

// Returns the first instruction of a function or inlined copy: DW_AT_entry_pc, else the start of
// its first range.
std::optional<std::uint64_t> entry_address(const Die& die);

} // namespace uprobectl::dwarf
