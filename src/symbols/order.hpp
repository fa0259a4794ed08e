// The order of a listing, and what in it says nothing new.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// By address, name and version; each of these once, .dynsym before .symtab, a typed symbol before a
// label. An unversioned name outside .dynsym also goes where .dynsym has it at that address in
// whatever versions: linkers leave the version out of most .symtab names.
std::vector<elf::Symbol> sorted_without_repeats(std::vector<elf::Symbol> symbols);

} // namespace uprobectl
