// Itanium C++ manglings, through LLVM's parser with bounds of our own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

// Bytes; far longer than what compilers write.
inline constexpr std::size_t longest_mangled_name = 65536;

struct DemangledName {
  std::string whole; // "int ns::f<int>(int) const"
  std::string name;  // "ns::f<int>": no return type, parameters, qualifiers; empty for data
};

// What is wanted of a name: printing costs as much as parsing, so that whoever lists a library does
// without the short name, which is left empty then.
enum class NameParts { whole, both };

// Nothing if the name is not mangled, malformed, or one of those that would blow up: a name of a
// few hundred bytes can stand for gigabytes of text, or for a recursion deeper than the stack.
std::optional<DemangledName> demangle_itanium(std::string_view raw, NameParts wanted);

} // namespace uprobectl
