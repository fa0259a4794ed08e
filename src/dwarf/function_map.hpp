// SPDX-License-Identifier: Apache-2.0
// The functions of a unit by address, with those that are inlined. LLVM has the same map
// (DWARFUnit::getSubroutineForAddress), but makes it by a recursion as deep as entries are nested,
// which a damaged file decides. Only this module includes this header.
#pragma once

#include "uprobectl/elf.hpp"

#include <llvm/DebugInfo/DWARF/DWARFDie.h>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace uprobectl::dwarf {

class Context;

class FunctionMap {
public:
  // Reads all entries of the unit. If they have too many ranges, the rest is not read, with a
  // warning.
  FunctionMap(Context& context, llvm::DWARFUnit& unit);

  // Returns the DW_TAG_subprogram or DW_TAG_inlined_subroutine whose code has the address, the
  // innermost of several; invalid if there is none.
  llvm::DWARFDie innermost_at(VirtualAddress address) const;
  // Returns the definition of a function that has no code, by its name in the symbol table; invalid
  // if there is none, or more than one.
  llvm::DWARFDie without_code(Context& context, std::string_view symbol);

private:
  struct Range {
    std::uint64_t end = 0;
    llvm::DWARFDie function;
  };
  void add(std::uint64_t begin, std::uint64_t end, const llvm::DWARFDie& function);

  std::map<std::uint64_t, Range> ranges_;    // by begin; disjoint
  std::vector<llvm::DWARFDie> without_code_; // declarations as well
  std::optional<std::unordered_map<std::string_view, llvm::DWARFDie>> definitions_; // of these
};

} // namespace uprobectl::dwarf
