// SPDX-License-Identifier: Apache-2.0
// Names of Java methods as users type them, and of their native counterparts.
#pragma once

#include "uprobectl/art.hpp"

namespace uprobectl {

// "com.foo.Bar.baz", optionally with the parameters behind it and the return type in front.
struct MethodName {
  std::string_view return_type; // empty if not given
  std::string_view class_name;
  std::string_view name;
  std::optional<std::vector<std::string_view>> parameters; // nullopt if not given
};

// Returns nullopt if the text has no class name.
std::optional<MethodName> parse_method_name(std::string_view text);

// Whether the text is a pattern. "[]" is part of an array's type, not a pattern.
bool is_method_pattern(std::string_view text);

// Whether two class names are equal when '.' and '$' are taken as the same.
bool is_same_nested(std::string_view a, std::string_view b);

// Whether the method has the parameters and the return type of the name, as far as given.
bool has_signature(const art::Signature& signature, const MethodName& name);

// The short name of a native method's function ("Resolving Native Method Names" of the JNI
// specification). For an overloaded method, "__" and its parameters follow.
std::string native_name(const art::Signature& signature);

} // namespace uprobectl
