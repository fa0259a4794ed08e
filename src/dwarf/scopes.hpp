// SPDX-License-Identifier: Apache-2.0
// The functions and inlined copies that contain addresses. Only this module includes this header.
#pragma once

#include "dwarf/attributes.hpp"

namespace uprobectl::dwarf {

// The entry of the function whose code contains an address, then those of the copies that are
// inlined there, the innermost last. Functions around that function in the source, as around a
// lambda, do not belong to it.
using Scopes = std::vector<Die>;

// Returns the scopes of each address. All are empty if the split unit cannot be read.
std::vector<Scopes> scopes_at(Context& context, llvm::DWARFUnit& unit,
                              std::span<const std::uint64_t> addresses);

} // namespace uprobectl::dwarf
