// SPDX-License-Identifier: Apache-2.0
// Where the C and C++ calling conventions pass parameters and results, by their types:
// System V AMD64 psABI 3.2.3, AAPCS64 6.8.2 and 6.9, and for C++ the Itanium C++ ABI 3.1.
// Rust's is that of LLVM for the scalars that rust_passing.hpp makes of a type.
#pragma once

#include "dwarf/location.hpp"
#include "dwarf/rust_passing.hpp"

namespace uprobectl::dwarf {

// How a call passes its parameters and returns its result.
struct CallLocations {
  // At the function's first instruction, in the given order. Without those after one whose
  // location is not known.
  std::vector<Location> parameters;
  Location result; // right before or after the return
  // The result is in memory that the caller provides. Its address is then in the first argument
  // register (x86-64, where it is also in rax at the return) or in x8 at the entry (arm64).
  bool result_in_memory = false;
  std::optional<Location> result_address = {}; // at the entry
};

struct Passed {
  const Type* type = nullptr; // never null
  // By a pointer to a copy, as the parameter's location shows, whatever the type says.
  bool by_reference = false;
  std::optional<RustScalars> scalars = {}; // what Rust passes instead of the type
};

// Compilers differ in what the convention for x86-64 does not say.
struct Compiler {
  bool is_clang = false;
  // Passes an __int128 either in two registers or on the stack: since LLVM 18. It takes the last
  // register in both cases.
  bool keeps_pairs = false;
};
Compiler compiler_of(std::string_view producer); // DW_AT_producer

// Whether a convention passes parameters and results as the platform's does (LLVM's language
// reference, "Calling Conventions"): those differ in the registers that the callee saves.
bool is_like_platform(std::uint64_t convention, const elf::Machine& machine);

// Whether the type and all its members are known, and passed by the rules that are implemented.
bool is_completely_known(const Type& type);

// Locates the parameters of a function with these types, which must be completely known, passed by
// reference or have scalars. Returns nullopt if the calling convention of the machine is not
// supported.
std::optional<CallLocations> locate_call(const elf::Machine& machine,
                                         std::span<const Passed> parameters, const Passed& result,
                                         const Compiler& compiler);

} // namespace uprobectl::dwarf
