// SPDX-License-Identifier: Apache-2.0
// Resolves names of compiled Java methods in OAT files.
#pragma once

#include "resolve/point.hpp"
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
bool is_same_class(std::string_view a, std::string_view b);

// Whether the method has the parameters and the return type of the name, as far as given.
bool has_signature(const art::Signature& signature, const MethodName& name);

// The short name of a native method's function ("Resolving Native Method Names" of the JNI
// specification). For an overloaded method, "__" and its parameters follow.
std::string native_name(const art::Signature& signature);

// The methods of one OAT file, read when they are first needed.
class JavaMethods {
public:
  JavaMethods() = default;
  JavaMethods(art::DexSearch where, std::optional<std::string> oatdump)
      : where_(std::move(where)), oatdump_(std::move(oatdump)) {}

  // Null unless the image, which must outlive this, is an OAT file.
  const Result<art::OatFile>* in(elf::Image& image);

private:
  art::DexSearch where_;
  std::optional<std::string> oatdump_;
  bool searched_ = false;
  std::optional<Result<art::OatFile>> oat_;
};

// Whether the FUNCTION can mean a Java method or a place in one.
bool may_be_method(const FunctionSpec& function);

// The places of the methods that the name of a query with `methods` means. If there are none,
// and may_have_symbol() of the error is true, the file may have a symbol of that name.
Result<std::vector<ProbePoint>> resolve_method(const Query& query);
bool may_have_symbol(const Error& error);

// A warning for a point that was resolved by a symbol because methods could not be read; empty if
// they could.
std::string missing_methods_warning(const Query& query);

// Adds what is known of the method that covers the point. The point has its name already.
void describe_method(const Query& query, ProbePoint& point, const elf::Symbol& symbol);

} // namespace uprobectl
