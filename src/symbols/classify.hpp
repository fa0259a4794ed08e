// SPDX-License-Identifier: Apache-2.0
// Classifies symbols: which are code, and which are clones or parts that a compiler made of a
// function.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl::symbols {

// Whether the symbol is $a, $d, $t or $x, with or without ".suffix". ARM and AArch64 assemblers
// mark the boundaries between code and data with them (ELF for the Arm Architecture,
// section 5.5.5). RISC-V uses $x and $d.
bool is_mapping_symbol(const elf::Symbol& symbol, const elf::Machine& machine);

// Whether the symbol has a name for users: not empty, and not a section, source file or mapping
// symbol.
bool is_named(const elf::Symbol& symbol, const elf::Machine& machine);

// Whether the symbol is a function, IFUNC or label in file bytes of an executable segment.
bool is_code(const elf::Symbol& symbol, const elf::Image& image);

// Whether the symbol is marked as a function or IFUNC. Labels are not.
bool is_typed_code(const elf::Symbol& symbol);

// Whether the image's .symtab has all functions. If only a few were left in it (strip -K, -x), it
// has no local ones.
bool has_whole_symtab(const elf::Image& image);

// Names that a compiler derives from a function's: "f.constprop.0", "f.part.1.cold".

// Says what the code of a name with a suffix is. If a name has several suffixes, the last in this
// order counts.
enum class SuffixKind : std::uint8_t {
  rename, // the function itself, whose name had to be made unique
  body,   // a copy of the function, called instead of it
  piece,  // split out of the function: it is called, but its calls are not those of the function
  cold,   // split out of the function: reached by a jump, never called
};

struct CloneName {
  std::string_view base;     // "f"
  std::string_view function; // the base with the suffixes of renames: "f.llvm.5"
  SuffixKind kind = SuffixKind::rename;
  bool is_unknown = false;  // a suffix is not in the table
  bool is_numbered = false; // a suffix has a number: "f.part.0", not "f.cold"
};

// Splits off the suffixes; nullopt if there is none. Each has a number or not; several may follow.
// What follows the first '.' of a mangled name are suffixes; those that are not known are bodies.
// Other names may have dots themselves: only known suffixes are split off. Looks at the name alone:
// Bodies (bodies.hpp) tells whether a symbol is a clone.
std::optional<CloneName> parse_clone_name(std::string_view raw);

// Returns the name without all that may be suffixes. Bodies of one function have the same stem.
std::string_view stem_of(std::string_view raw);

// Whether a text begins with a known suffix (without the dot before it) or a number.
bool is_suffix(std::string_view text);

// Whether a suffix of this word is that of code which belongs to the function that jumps to it.
bool is_part_word(std::string_view word);

// Whether the name is a clone whose arguments may differ from the function's: GCC's constprop and
// isra omit some, and part takes its own.
bool has_other_arguments(std::string_view raw);

} // namespace uprobectl::symbols
