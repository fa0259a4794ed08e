// SPDX-License-Identifier: Apache-2.0
// Checks entries before LLVM reads them. Only this module includes this header.
#pragma once

#include "elf/layout.hpp"

namespace llvm {
class DWARFUnit;
}

namespace uprobectl::dwarf {

// Whether all values of the unit's entries end inside it, and reading them takes time in proportion
// to its size. LLVM 19 adds the sizes of blocks to its position unchecked: it would read outside of
// the section, or go back and read the same entries forever (DWARFFormValue::skipValue,
// DWARFUnit::extractDIEsToVector). Abbreviations may have any number of attributes without bytes in
// the unit, and are searched one by one if their codes have gaps.
bool has_bounded_entries(const llvm::DWARFUnit& unit);
// Checks only the first entry of the unit.
bool has_bounded_root(const llvm::DWARFUnit& unit);

// Returns the size of the table of abbreviations (DWARF 5, 7.5.3) at the start of the bytes, with
// the zero that ends it.
std::uint64_t abbreviations_size(Bytes table, ByteOrder order);

// Whether the indexes of a package of split units (DWARF 5, 7.3.5.3) refer to units that they have,
// and its compressed sections inflate to a plausible size. LLVM 19 writes outside of its table for
// other indexes, and inflates what a section claims.
bool has_safe_split_sections(const elf::Layout& layout);

} // namespace uprobectl::dwarf
