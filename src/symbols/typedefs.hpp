// SPDX-License-Identifier: Apache-2.0
// Typedefs in written names. Mangled names have the types that typedefs stand for.
#pragma once

#include "symbols/parsed_name.hpp"

#include <map>

namespace uprobectl::symbols {

// Types in canonical form by the names of typedefs.
using TypedefMap = std::map<std::string, std::string, std::less<>>;

// Returns the names in the types of a written name, at most 16: "size_t", "shop::Id". Without
// built-in types.
std::vector<std::string> type_names(const ParsedName& name);

// Replaces typedefs in the types of a written name.
void replace_typedefs(ParsedName& name, const TypedefMap& typedefs);

// Returns the type of a typedef that Linux has with this size of pointers: "unsigned long" for
// "size_t" and "std::size_t". Returns nullopt for other names.
std::optional<std::string_view> well_known_type(std::string_view name, bool is_64bit);

} // namespace uprobectl::symbols
