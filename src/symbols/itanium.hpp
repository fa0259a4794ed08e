// Itanium C++ manglings, through LLVM's parser with bounds of our own.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

// Bytes; far longer than what compilers write.
inline constexpr std::size_t longest_mangled_name = 65536;
// Bytes. Compilers write few names that are longer, with or without debug information.
inline constexpr std::size_t longest_usual_name = 8192;

// What this thread may still spend on names whose demangled form needs far more memory than others
// of their length, and on very long ones: a file can make each of a million symbols such a name, or
// all of them share one. When it is spent such names stay mangled.
class DemanglingBudget {
public:
  static DemanglingBudget& of_this_thread();

  std::size_t left() const { return left_; }
  void refill() { left_ = full; } // for another file or list
  // `cost`: bytes that were made of the name.
  void charge(std::string_view raw, std::size_t cost);

private:
  static constexpr std::size_t full = std::size_t{512} << 20;
  std::size_t left_ = full;
};

struct DemangledName {
  std::string whole; // "int ns::f<int>(int) const"
  std::string name;  // "ns::f<int>": no return type, parameters, qualifiers; empty for data
};

// Demangles name after name in memory that it keeps. Nothing if a name is not mangled, malformed,
// or one of those that would blow up: a name of a few hundred bytes can stand for gigabytes of
// text, or for a recursion deeper than the stack.
class ItaniumDemangler {
public:
  // Without the short name, for whoever lists a library: printing costs as much as parsing. Valid
  // until the next name.
  std::optional<std::string_view> whole(std::string_view raw);
  std::optional<DemangledName> parts(std::string_view raw);

private:
  // What LLVM prints into and makes larger with realloc().
  struct Text {
    std::unique_ptr<char, decltype(&std::free)> bytes{nullptr, &std::free};
    std::size_t capacity = 0;
  };
  Text text_;
};

} // namespace uprobectl
