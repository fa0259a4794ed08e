// SPDX-License-Identifier: Apache-2.0
// Names of the C++ standard library that have a longer form in symbols: aliases, inline namespaces,
// default template arguments.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace uprobectl::symbols {

// Whether names of the standard library may omit the component, an inline namespace: "__cxx11" of
// libstdc++, "__1" and "__ndk1" of libc++.
bool is_inline_std_namespace(std::string_view component);

// Expands "string" to "basic_string<char>" and likewise the names of other strings and of streams.
// Returns nullopt for other names.
std::optional<std::string> expand_std_alias(std::string_view name);

// Returns how many arguments of a class template of the standard library are left without the last
// ones that are its defaults: 1 for "vector" and "int", "std::allocator<int>". All arguments if it
// is another template. Arguments are in canonical form.
std::size_t count_without_defaults(std::string_view name, std::span<const std::string> arguments);

// Whether the template argument is one that templates usually have by default: std::allocator,
// std::less and similar templates of the first argument. Both are in canonical form.
bool may_be_default_argument(std::string_view argument, std::string_view first);

} // namespace uprobectl::symbols
