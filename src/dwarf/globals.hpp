// SPDX-License-Identifier: Apache-2.0
// Global and static variables of a module, by their names in the source.
#pragma once

#include "dwarf/functions.hpp"

namespace uprobectl::dwarf {

// Both find a variable that is defined at file or namespace scope, or as a static member of a
// class: "counter", "shop::Store::count", or the end of that name if only one variable has it.

// Among the variables of the compile unit whose code covers the address. nullopt if there is none.
std::optional<Variable> find_unit_variable(const DebugInfo& info, std::string_view name,
                                           VirtualAddress address);
// Among those of all units. nullopt if there is none, if static variables of several units have the
// name, or, with a warning, if .debug_info is larger than max_debug_info. Reads all entries.
std::optional<Variable> find_global(const DebugInfo& info, std::string_view name);

// A variable that the unit only declares, for example by `extern`.
struct DeclaredVariable {
  Variable variable; // without a location
  std::string symbol;
};
// Finds one by its whole name in the compile unit whose code covers the address.
std::optional<DeclaredVariable> find_declared_variable(const DebugInfo& info, std::string_view name,
                                                       VirtualAddress address);

} // namespace uprobectl::dwarf
