// SPDX-License-Identifier: Apache-2.0
// Demangling: C++ (Itanium ABI, through LLVM's parser with bounds of our own) and Rust (v0: RFC
// 2603, legacy: Itanium names with escapes).
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl::symbols {

// Bytes; longer names are not demangled. Compilers write far shorter ones.
inline constexpr std::size_t max_mangled_length = 65536;
// Bytes; longer names are charged to the DemanglingBudget. Compilers write few such names.
inline constexpr std::size_t max_usual_length = 8192;

// Limits the memory, in bytes, that a thread uses for very long names and for names that need far
// more memory than usual for their length: a malicious file may have a million of them. If the
// budget is exhausted, such names stay mangled.
class DemanglingBudget {
public:
  static DemanglingBudget& for_this_thread();

  std::size_t left() const { return left_; }
  void refill() { left_ = full; } // called for each file or list
  // Subtracts the cost of a name, unless it is usual. `cost`: bytes allocated for the name.
  void charge(std::string_view raw, std::size_t cost);
  // Charges the name, unless the budget is exhausted and the name is not a usual one: then returns
  // false.
  bool take(std::string_view raw, std::size_t cost);

private:
  static constexpr std::size_t full = std::size_t{512} << 20;
  std::size_t left_ = full;
};

// A demangled name with and without its function type.
struct DemangledName {
  std::string whole; // "int ns::f<int>(int) const"
  std::string name;  // "ns::f<int>": no return type, parameters, qualifiers; empty for data
};

// Demangles C++ names and reuses its buffer. Returns nullopt if a name is not mangled, is
// malformed, or would need too much memory or stack: a name of a few hundred bytes can expand to
// gigabytes. Implemented in itanium.cpp, which is compiled with -O3.
class ItaniumDemangler {
public:
  // Returns the whole name only; printing the short one takes as long as parsing. Valid until the
  // next call.
  std::optional<std::string_view> whole(std::string_view raw);
  std::optional<DemangledName> parts(std::string_view raw);

private:
  // LLVM's OutputBuffer writes into it and grows it with realloc().
  struct Text {
    std::unique_ptr<char, decltype(&std::free)> bytes{nullptr, &std::free};
    std::size_t capacity = 0;
  };
  Text text_;
};

// Demangles C++ and Rust names and reuses its buffers.
class Demangler {
public:
  // Returns what demangle() returns. Valid until the next call.
  std::optional<std::string_view> whole(std::string_view raw);

private:
  ItaniumDemangler itanium_;
  std::string rust_;
};

// Returns where the short name begins in the whole one: after the return type.
std::size_t name_begin(const DemangledName& name);

// Whether the name is "_ZN...17h<16 hexadecimal digits>E", which only rustc writes
// (rustc_symbol_mangling/src/legacy.rs).
bool is_legacy_rust(std::string_view raw);

// Demangles a C++ or Rust name. Rust names have no parameters, so their whole and short names are
// equal.
std::optional<DemangledName> demangle_parts(std::string_view raw);

// Whether the name has the prefix of a mangled name. Cheap.
inline bool looks_mangled(std::string_view raw) {
  return raw.starts_with("_Z") || raw.starts_with("_R");
}

} // namespace uprobectl::symbols
