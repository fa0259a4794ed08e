// Which symbols count as code.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// $a, $d, $t, $x, with or without ".suffix": marks that ARM and AArch64 assemblers leave where code
// and data meet (ELF for the Arm Architecture, section 5.5.5). RISC-V writes $x and $d too.
bool is_mapping_symbol(const elf::Symbol& symbol, const elf::Machine& machine);

// A name a person may mean: not a section, a source file, a mapping symbol or nothing at all.
bool is_named(const elf::Symbol& symbol, const elf::Machine& machine);

// A function, IFUNC or label in file bytes of an executable segment.
bool is_code(const elf::Symbol& symbol, const elf::Image& image);

} // namespace uprobectl
