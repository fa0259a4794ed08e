// The last component of a qualified name.
#pragma once

#include <string_view>

namespace uprobectl {

// "bar" of "ns::Foo::bar(int)" and of "(anonymous namespace)::bar"; not meant for names with
// template arguments or lambdas in front, of which it gives some other part.
inline std::string_view base_name(std::string_view name) {
  constexpr std::string_view anonymous = "(anonymous namespace)";
  if (const std::size_t at = name.rfind(anonymous); at != std::string_view::npos)
    name.remove_prefix(at + anonymous.size());
  name = name.substr(0, name.find('('));
  const std::size_t colons = name.rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

} // namespace uprobectl
