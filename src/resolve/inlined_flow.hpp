// SPDX-License-Identifier: Apache-2.0
// Whether the hits of the entries of inlined copies equal the calls, by the code.
#pragma once

#include "dwarf/inlined.hpp"

namespace uprobectl::resolve {

// Clears InlinedInstance::is_entry_known where the code can be run without its entries, a loop
// begins at one, or the compiler may have joined several calls. `functions`: all instances of each.
void check_entries(const elf::Image& image, std::span<dwarf::InlinedFunction> functions);

} // namespace uprobectl::resolve
