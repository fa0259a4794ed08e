// SPDX-License-Identifier: Apache-2.0
// Parses C++ and Rust names into one form, however they are spelled: by a user, by LLVM's demangler
// or by GNU's. The types in them are text in canonical form: "const char *" and "char const*" are
// both "char const*", and "std::vector<int, std::allocator<int> >" is "std::vector<int>".
#pragma once

#include "symbols/demangle.hpp"

#include <vector>

namespace uprobectl {

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

struct WrittenName {
  std::string return_type;               // often unknown, and then empty
  std::vector<NameComponent> components; // never empty; the last one is the function
  std::string trait;                     // Rust: "Trait" of "<Type as Trait>::f"; else empty
  bool is_rooted = false;                // "::f"
};

// The name of an unnamed namespace, in components and in types.
inline constexpr std::string_view anonymous_namespace = "{anonymous}";

// Whether names of the standard library may omit the component, an inline namespace: "__cxx11" of
// libstdc++, "__1" and "__ndk1" of libc++.
bool is_inline_std_namespace(std::string_view component);

// Longer names are not parsed.
inline constexpr std::size_t max_written_length = 16384;

inline bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

// Parses a name as a user writes it, with or without parameters. With parameters, a return type may
// precede it, and the parameters may have names. Returns nullopt if the text is not such a name,
// for example because it is a pattern.
std::optional<WrittenName> parse_written_name(std::string_view text);

// Parses the name of a function or method from the demangler.
std::optional<WrittenName> parse_demangled_name(const DemangledName& demangled);

// Expands "string" to "basic_string<char>" and likewise the names of other strings and of streams.
// Returns nullopt for other names.
std::optional<std::string> expand_std_alias(std::string_view name);

} // namespace uprobectl
