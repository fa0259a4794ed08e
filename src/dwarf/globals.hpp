// SPDX-License-Identifier: Apache-2.0
// Global and static variables of a module, by their names in the source.
#pragma once

#include "dwarf/functions.hpp"

namespace uprobectl::dwarf {

// A variable that an entry only declares, for example by `extern`.
struct DeclaredVariable {
  Variable variable; // located only if the declaration has a constant value
  std::string symbol;
};

// What a name stands for in the source of some code.
struct NameLookup {
  // Whole names without inline and anonymous namespaces, that of the innermost scope first. The
  // last one is that of the global scope.
  std::vector<std::string> names;
  bool may_be_end = true; // of a name, if no variable has one of the whole names
  // What the source declares: a static variable of the function or of its class, or of a namespace.
  std::optional<DeclaredVariable> declared = {};
};

// Looks the name up from the code outwards: "counter", "shop::Store::count"; "::counter" is global.
NameLookup look_up(const DebugInfo& info, std::string_view name, const CodePoint& point);

struct FoundVariable {
  Variable variable;
  bool has_whole_name = false;
};

// Both find the definition at file or namespace scope, or of a static member of a class.

// Among the variables of the compile unit whose code covers the address. nullopt if there is none.
// Narrows the lookup to a declaration of an inner scope than that of all definitions.
std::optional<FoundVariable> find_unit_variable(const DebugInfo& info, NameLookup& lookup,
                                                VirtualAddress address);
// Among those of all units. nullopt if there is none, if static variables of several units have the
// name, or, with a warning, if .debug_info is larger than max_debug_info. Reads all entries.
std::optional<FoundVariable> find_global(const DebugInfo& info, const NameLookup& lookup);

} // namespace uprobectl::dwarf
