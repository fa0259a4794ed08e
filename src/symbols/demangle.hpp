// SPDX-License-Identifier: Apache-2.0
// Demangling: C++ (Itanium ABI, through LLVM's parser with bounds of our own) and Rust (v0: RFC
// 2603, legacy: Itanium names with escapes).
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl {

// Bytes; compilers write far shorter names.
inline constexpr std::size_t max_mangled_length = 65536;
// Bytes. Compilers write few names that are longer, with or without debug information.
inline constexpr std::size_t max_usual_length = 8192;

// Bytes that this thread may still spend on very long names, and on names whose demangled form
// needs far more memory than usual for their length: each of a million symbols of a file may be
// one. When the budget is spent, such names stay mangled.
class DemanglingBudget {
public:
  static DemanglingBudget& of_this_thread();

  std::size_t left() const { return left_; }
  void refill() { left_ = full; } // for another file or list
  // `cost`: bytes allocated for the name.
  void charge(std::string_view raw, std::size_t cost);

private:
  static constexpr std::size_t full = std::size_t{512} << 20;
  std::size_t left_ = full;
};

struct DemangledName {
  std::string whole; // "int ns::f<int>(int) const"
  std::string name;  // "ns::f<int>": no return type, parameters, qualifiers; empty for data
};

// Demangles names one after another and reuses its buffer. Returns nullopt if a name is not
// mangled, malformed, or would need too much memory or stack: a name of a few hundred bytes can
// stand for gigabytes of text. Implemented in itanium.cpp, which is compiled with -O3.
class ItaniumDemangler {
public:
  // Omits the short name: printing costs as much as parsing. Valid until the next call.
  std::optional<std::string_view> whole(std::string_view raw);
  std::optional<DemangledName> parts(std::string_view raw);

private:
  // LLVM prints into it and grows it with realloc().
  struct Text {
    std::unique_ptr<char, decltype(&std::free)> bytes{nullptr, &std::free};
    std::size_t capacity = 0;
  };
  Text text_;
};

// Demangles names of any language one after another and reuses its buffers.
class Demangler {
public:
  // Same as demangle(); valid until the next call.
  std::optional<std::string_view> whole(std::string_view raw);

private:
  ItaniumDemangler itanium_;
  std::string rust_;
};

// Whole and short name. They are equal for Rust, whose names have no parameters.
std::optional<DemangledName> demangle_parts(std::string_view raw);

// Whether the name has the prefix of a mangled name. Cheap.
inline bool looks_mangled(std::string_view raw) {
  return raw.starts_with("_Z") || raw.starts_with("_R");
}

} // namespace uprobectl
