// SPDX-License-Identifier: Apache-2.0
// The function at an address: its parameters, variables and result with their types, and where
// their values are (DWARF 5, 2.6, 3.3 and 4.1). Types belong to the DebugInfo.
#pragma once

#include "dwarf/location.hpp"
#include "dwarf/types.hpp"

namespace uprobectl::dwarf {

// A parameter or variable that is visible at an address.
struct Variable {
  std::string name;           // empty if the source has none
  const Type* type = nullptr; // never null
  Location location;
  bool is_parameter = false;
  bool is_artificial = false; // made by the compiler: `this`
  // The function that has been inlined at the address and has the variable; empty: the function
  // itself.
  std::string inlined_function = {};
  bool of_probed_call = false; // a parameter of CodePoint::inlined_call
};

struct FunctionInfo {
  std::string name;                // with its scopes: "shop::Store::add"
  std::string linkage_name;        // as in symbol tables
  VirtualAddress entry;            // of the first instruction
  std::string file;                // of the declaration, absolute; empty if unknown
  std::uint32_t line = 0;          // of the declaration; 0: unknown
  std::vector<Variable> variables; // parameters first, in the order of the source
  bool is_variadic = false;
  const Type* result = nullptr; // never null; kind none for void
  // The language has results that the debug information has no locations for (Go). The kind is
  // none.
  bool has_unknown_result = false;
  Location result_location; // at the return
  // At the entry, the address of the memory for the result, if the caller provides it.
  std::optional<Location> result_address = {};
  // The compiler has replaced it by another function with the same code: see CodePoint::symbol.
  bool is_replaced = false;
};

// Describes the code at the address beyond its debug information.
struct CodePoint {
  VirtualAddress address;
  // The canonical frame address at this instruction, from call frame information. Not needed for
  // the first instruction of a function.
  std::optional<Formula> cfa = {};
  // The compiler has made a copy of the function with other parameters ("f.constprop.0"): the
  // calling convention does not tell where they are.
  bool is_clone = false;
  bool keeps_result = false; // although it is such a copy
  // Bytes of padding at the address (entry_padding() in insn.hpp), if it is the function's first
  // instruction: location lists of clang begin after it.
  std::uint64_t padding = 0;
  // Whether linkage_name, file and line of FunctionInfo are needed; otherwise they are empty.
  bool with_declaration = true;
  // Whether result_location and result_address are needed.
  bool with_result = true;
  // The inlined call that is probed (InlinedInstance::offset). Its parameters are located also if
  // its code does not contain the point, as gcc writes it, or begins where the function itself
  // does.
  std::optional<std::uint64_t> inlined_call = {};
  // The name in the symbol table, if the address is the function's first instruction; else empty.
  // Of functions with equal code gcc keeps one (-fipa-icf). The others are symbols at its address,
  // or jump to it, and have parameters and types of their own.
  std::string_view symbol = {};
};

// Describes the function whose code covers the point. Parameters are located at the point: at the
// first instruction by their location lists or, where these refer to the stack frame that is not
// set up yet, by the calling convention. nullopt if the debug information does not cover it, or
// cannot be read there (see DebugInfo::warnings).
std::optional<FunctionInfo> describe_function(const DebugInfo& info, const CodePoint& point);

// Returns why describe_function() finds nothing at the address.
std::string_view why_not_described(const DebugInfo& info, VirtualAddress address);

} // namespace uprobectl::dwarf
