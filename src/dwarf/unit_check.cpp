// SPDX-License-Identifier: Apache-2.0
#include "dwarf/unit_check.hpp"

#include <algorithm>
#include <llvm/DebugInfo/DWARF/DWARFDebugAbbrev.h>
#include <llvm/DebugInfo/DWARF/DWARFFormValue.h>
#include <llvm/DebugInfo/DWARF/DWARFUnit.h>

namespace uprobectl::dwarf {

// LLVM stops by itself at a code without abbreviation and at an unknown form.
bool has_bounded_entries(const llvm::DWARFUnit& unit) {
  const llvm::DWARFAbbreviationDeclarationSet* const abbreviations = unit.getAbbreviations();
  if (abbreviations == nullptr) return true;
  const llvm::DWARFDataExtractor data = unit.getDebugInfoExtractor();
  const std::uint64_t end = std::min<std::uint64_t>(unit.getNextUnitOffset(), data.size());
  std::uint64_t at = unit.getOffset() + unit.getHeaderSize();
  while (at < end) {
    const std::uint64_t begin = at;
    const std::uint64_t code = data.getULEB128(&at);
    if (at == begin) return true; // malformed: LLVM reads it as the end of children
    if (code == 0) continue;
    const auto* const abbreviation =
        abbreviations->getAbbreviationDeclaration(static_cast<std::uint32_t>(code));
    if (abbreviation == nullptr) return true;
    for (const auto& attribute : abbreviation->attributes()) {
      if (attribute.isImplicitConst()) continue;
      const std::uint64_t before = at;
      if (!llvm::DWARFFormValue::skipValue(attribute.Form, data, &at, unit.getFormParams()))
        return true;
      if (at < before || at > end) return false;
    }
  }
  return true;
}

} // namespace uprobectl::dwarf
