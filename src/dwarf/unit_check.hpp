// SPDX-License-Identifier: Apache-2.0
// Checks entries and line tables before LLVM reads them. Only this module includes this header.
#pragma once

#include "uprobectl/util.hpp"

namespace llvm {
class DWARFUnit;
}

namespace uprobectl::dwarf {

// Whether all values of the unit's entries end inside it. LLVM 19 adds the sizes of blocks to its
// position unchecked: it would read outside of the section, or go back and read the same entries
// forever (DWARFFormValue::skipValue, DWARFUnit::extractDIEsToVector).
bool has_bounded_entries(const llvm::DWARFUnit& unit);

// Whether the names of files in the header of a line table (DWARF 5, 6.2.4) have forms that LLVM 19
// reads safely: it takes other values for pointers to text, copies 16 bytes of any MD5 sum, and
// repeats entries without bytes as often as the header says. `table`: of .debug_line, from the
// offset in DW_AT_stmt_list on.
bool has_readable_file_names(Bytes table, ByteOrder order);

} // namespace uprobectl::dwarf
