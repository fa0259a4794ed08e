// SPDX-License-Identifier: Apache-2.0
// What rustc makes of a type that a function of Rust takes or returns: scalars, which LLVM passes
// one by one (rustc's FnAbi::adjust_for_rust_abi and LayoutCalculator). Only what all versions
// since 1.64 do, and what an `extern "C"` function, which the debug information does not tell from
// others, does, too.
#pragma once

#include "dwarf/types.hpp"

namespace uprobectl::dwarf {

struct RustScalar {
  std::uint64_t offset = 0; // in the value, bytes
  std::uint64_t size = 0;   // bytes
  bool is_floating = false;
};

struct RustScalars {
  std::vector<RustScalar>
      each; // in the order in which they are passed; none for types without size
  // C has them in registers or on the stack as a whole.
  bool are_together = false;
};

// nullopt: not known, or by a pointer.
std::optional<RustScalars> scalars_in_rust(const Type& type);

} // namespace uprobectl::dwarf
