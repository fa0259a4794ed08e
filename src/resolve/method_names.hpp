// SPDX-License-Identifier: Apache-2.0
// Notations of Java methods: those that users type, and the symbols of native methods.
#pragma once

#include "uprobectl/art.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uprobectl::resolve {

// A parsed "com.foo.Bar.baz", optionally with parameters after it and a return type before it.
struct MethodName {
  std::string_view return_type; // empty if not given
  std::string_view class_name;
  std::string_view name;
  std::optional<std::vector<std::string_view>> parameters; // nullopt if not given
};

// Converts the notations of smali ("Lcom/foo/Bar;->baz(I)V"), Javadoc ("com.foo.Bar#baz(int)") and
// class files ("com/foo/Bar.baz") to "void com.foo.Bar.baz(int)". Returns other text unchanged.
std::string usual_method_name(std::string_view text);

// Returns "com.foo.Bar.baz" for a method in any notation, as the symbols of an OAT file name it.
// Returns nullopt if the text has types, which these symbols do not have.
std::optional<std::string> untyped_method_name(std::string_view text);

// Returns nullopt if the text has no class name. In "com.foo.Bar.baz(Bar.java:20)", as stack traces
// have it, the parameters are not given.
std::optional<MethodName> parse_method_name(std::string_view text);

// Whether the text is a pattern. "[]" is part of an array's type, not a pattern.
bool is_method_pattern(std::string_view text);

// Whether two class names are equal if '.' and '$' (nested classes) are not distinguished.
bool is_same_class(std::string_view a, std::string_view b);

// Whether the method has the parameters and the return type that the name specifies.
bool has_signature(const art::Signature& signature, const MethodName& name);

// How a compiler has derived the name of a method from that of another one.
enum class Derivation {
  none,
  // The method itself, renamed by Kotlin: "baz-IoAF18A" (a value class as a parameter),
  // "baz$app_release" (internal).
  renamed,
  // A part of its code or a call of it: "baz$default", "lambda$baz$0", "access$baz".
  separate,
};
Derivation derivation(std::string_view name, std::string_view derived);

// The short name of a native method's function ("Resolving Native Method Names" of the JNI
// specification). For an overloaded method, native_parameters() follow.
std::string native_name(const art::Signature& signature);
// Returns "__" and the encoded parameters.
std::string native_parameters(const art::Signature& signature);

} // namespace uprobectl::resolve
