// SPDX-License-Identifier: Apache-2.0
// Resolves names of compiled Java methods in OAT files.
#pragma once

#include "resolve/point.hpp"
#include "uprobectl/art.hpp"

namespace uprobectl {

// A parsed "com.foo.Bar.baz", optionally with parameters after it and a return type before it.
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

// Whether two class names are equal if '.' and '$' (nested classes) are not distinguished.
bool is_same_class(std::string_view a, std::string_view b);

// Whether the method has the parameters and the return type that the name specifies.
bool has_signature(const art::Signature& signature, const MethodName& name);

// The short name of a native method's function ("Resolving Native Method Names" of the JNI
// specification). For an overloaded method, "__" and its parameters follow.
std::string native_name(const art::Signature& signature);

// The methods of one OAT file, read on first use.
class JavaMethods {
public:
  JavaMethods() = default;
  JavaMethods(art::DexSearch where, std::optional<std::string> oatdump)
      : where_(std::move(where)), oatdump_(std::move(oatdump)) {}

  // Returns the methods of the image, or why they cannot be read; null if it is not an OAT file.
  // The image must be the same in each call and outlive this.
  const Result<art::OatFile>* in(elf::Image& image);

private:
  art::DexSearch where_;
  std::optional<std::string> oatdump_;
  bool searched_ = false;
  std::optional<Result<art::OatFile>> oat_;
};

// Whether the FUNCTION can mean a Java method or a place in one.
bool may_be_method(const FunctionSpec& function);

// Returns the places of the methods that the query's name means. Query::methods must be set. If it
// fails and may_have_symbol() is true for the error, the file may have a symbol of that name.
Result<std::vector<ProbePoint>> resolve_method(const Query& query);
bool may_have_symbol(const Error& error);

// Returns the warning for a point that was resolved by a symbol because the methods could not be
// read; empty if they could.
std::string missing_methods_warning(const Query& query);

// Adds Java types, aliases and warnings for the method that covers a named point.
void describe_method(const Query& query, ProbePoint& point, const elf::Symbol& symbol);

} // namespace uprobectl
