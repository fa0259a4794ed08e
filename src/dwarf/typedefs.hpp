// SPDX-License-Identifier: Apache-2.0
// The types that typedefs stand for, to compare types of C++ as users write them with those of
// mangled names. Typedefs are in no index, so this reads all units.
#pragma once

#include "dwarf/dwarf.hpp"

#include <map>
#include <string>

namespace uprobectl::dwarf {

// Returns the type of each typedef in the notation of C++, by name: "char const*" for "Text". A
// name may lack enclosing scopes. Omits names that are not known, that stand for a type without a
// name, or for different types in different scopes. Returns nothing if .debug_info is larger than
// max_debug_info.
std::map<std::string, std::string> find_typedefs(const DebugInfo& debug,
                                                 std::span<const std::string> names);

} // namespace uprobectl::dwarf
