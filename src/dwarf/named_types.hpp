// SPDX-License-Identifier: Apache-2.0
// All types of a file that have a name.
#pragma once

#include "dwarf/types.hpp"

namespace uprobectl::dwarf {

struct NamedType {
  std::string name;           // of a structure, union, enumeration or typedef, with its scopes
  const Type* type = nullptr; // never null
  // A local variable of a function has this type, or points to it.
  bool has_variable = false;
};

// Returns the types that the units define, in their order; at most max_named_types, with a warning
// beyond. Reads all units. The types are valid as long as the debug information.
std::vector<NamedType> list_named_types(const DebugInfo& debug);

constexpr std::size_t max_named_types = std::size_t{1} << 16;

} // namespace uprobectl::dwarf
