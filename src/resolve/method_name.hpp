// Java methods as people write them.
#pragma once

#include "uprobectl/art.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace uprobectl {

// "com.foo.Bar.baz", with parameters, and with the return type in front.
struct MethodName {
  std::string_view return_type; // empty: not said
  std::string_view class_name;
  std::string_view name;
  std::optional<std::vector<std::string_view>> parameters; // nothing: not said
};

// Nothing where the text names no class.
std::optional<MethodName> parse_method_name(std::string_view text);

// Whether the text is a pattern, in which "[]" is part of an array's type.
bool is_method_pattern(std::string_view text);

// Whether two class names are the same but for "." where the other has "$".
bool is_same_nested(std::string_view a, std::string_view b);

// Whether the method has the parameters and the return type that the name has.
bool has_signature(const art::Signature& signature, const MethodName& name);

} // namespace uprobectl
