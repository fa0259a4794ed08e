// SPDX-License-Identifier: Apache-2.0
// Classifies symbols: which are code, and which are clones or parts that a compiler made of a
// function.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// Whether the symbol is $a, $d, $t or $x, with or without ".suffix". ARM and AArch64 assemblers
// mark the boundaries between code and data with them (ELF for the Arm Architecture,
// section 5.5.5). RISC-V uses $x and $d.
bool is_mapping_symbol(const elf::Symbol& symbol, const elf::Machine& machine);

// Whether the symbol has a name for users: not empty, and not a section, source file or mapping
// symbol.
bool is_named(const elf::Symbol& symbol, const elf::Machine& machine);

// Whether the symbol is a function, IFUNC or label in file bytes of an executable segment.
bool is_code(const elf::Symbol& symbol, const elf::Image& image);

// Names that a compiler derives from a function's: "f.constprop.0", "f.part.1.cold".

struct CloneName {
  std::string_view base; // "f"
  bool cold = false;     // split out by the compiler, reached by a jump, never called
};

// Splits off the suffixes of clones and parts; nullopt if there is none. GCC: constprop, isra,
// part, cold, lto_priv; LLVM: llvm, cold, __uniq. Each with or without a number; several may
// follow.
std::optional<CloneName> parse_clone_name(std::string_view raw);

// Whether the name is a clone whose arguments may differ from the function's: GCC's constprop and
// isra omit some, and part takes its own.
bool has_other_arguments(std::string_view raw);

} // namespace uprobectl
