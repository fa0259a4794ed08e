// SPDX-License-Identifier: Apache-2.0
// Checks entries before LLVM reads them. Only this module includes this header.
#pragma once

namespace llvm {
class DWARFUnit;
}

namespace uprobectl::dwarf {

// Whether all values of the unit's entries end inside it. LLVM 19 adds the sizes of blocks to its
// position unchecked: it would read outside of the section, or go back and read the same entries
// forever (DWARFFormValue::skipValue, DWARFUnit::extractDIEsToVector).
bool has_bounded_entries(const llvm::DWARFUnit& unit);

} // namespace uprobectl::dwarf
