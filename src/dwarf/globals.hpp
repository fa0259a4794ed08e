// SPDX-License-Identifier: Apache-2.0
// Global and static variables of a module, by their names in the source.
#pragma once

#include "dwarf/functions.hpp"

namespace uprobectl::dwarf {

// Finds a variable that is defined at file or namespace scope, or as a static member of a class:
// "counter", "shop::Store::count", or the end of that name if only one variable has it. Variables
// of the unit at `near` come first, because each unit may have static variables of its own. nullopt
// if there is none, or if .debug_info is larger than max_debug_info.
std::optional<Variable> find_global(const DebugInfo& info, std::string_view name,
                                    VirtualAddress near);

} // namespace uprobectl::dwarf
