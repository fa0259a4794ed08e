// SPDX-License-Identifier: Apache-2.0
// Classifies symbols: which count as code.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// $a, $d, $t, $x, with or without ".suffix": ARM and AArch64 assemblers mark the boundaries between
// code and data with them (ELF for the Arm Architecture, section 5.5.5). RISC-V uses $x and $d.
bool is_mapping_symbol(const elf::Symbol& symbol, const elf::Machine& machine);

// Has a name that users ask for: not empty, nor that of a section, source file or mapping symbol.
bool is_named(const elf::Symbol& symbol, const elf::Machine& machine);

// A function, IFUNC or label in file bytes of an executable segment.
bool is_code(const elf::Symbol& symbol, const elf::Image& image);

} // namespace uprobectl
