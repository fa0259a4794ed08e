// SPDX-License-Identifier: Apache-2.0
// Parses C++ and Rust names into one form, however they are spelled: by a user, by LLVM's demangler
// or by GNU's. The types in them are text in canonical form: "const char *" and "char const*" are
// both "char const*", and "std::vector<int, std::allocator<int> >" is "std::vector<int>".
#pragma once

#include "symbols/demangle.hpp"
#include "symbols/std_names.hpp"
#include "util/text.hpp"

#include <vector>

namespace uprobectl::symbols {

// The part of a qualified name between two "::".
struct NameComponent {
  // "Store", "~Store", "operator[]", "operator char const*", anonymous_namespace, "{lambda#1}"; for
  // Rust also "{closure#0}".
  std::string name;
  std::string tags; // "[abi:cxx11]"
  std::optional<std::vector<std::string>> template_arguments;
  std::optional<std::vector<std::string>> parameters; // of a function
  std::string qualifiers;                             // after the parameters: "const", "const&"
};

struct ParsedName {
  std::string return_type;               // often unknown, and then empty
  std::vector<NameComponent> components; // never empty; the last one is the function
  std::string trait;                     // Rust: "Trait" of "<Type as Trait>::f"; else empty
  bool is_rooted = false;                // "::f"
};

// The name of an unnamed namespace, in components and in types.
inline constexpr std::string_view anonymous_namespace = "{anonymous}";

// Longer names are not parsed.
inline constexpr std::size_t max_written_length = 16384;

// Returns the path of names at the start of a canonical type: "std::string" of "std::string
// const&". Empty if the type starts with something else.
std::string_view path_at(std::string_view type);

// Parses a name as a user writes it, with or without parameters. With parameters, a return type may
// precede it, and the parameters may have names. Returns nullopt if the text is not such a name,
// for example because it is a pattern.
std::optional<ParsedName> parse_name(std::string_view text);

// Parses the name of a function or method from the demangler.
std::optional<ParsedName> parse_demangled_name(const DemangledName& demangled);

// Returns the canonical form of a type in C++; nullopt if it cannot be parsed.
std::optional<std::string> canonical_type(std::string_view type);

} // namespace uprobectl::symbols
