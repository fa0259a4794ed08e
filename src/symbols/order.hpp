// The order of a listing, and what in it says nothing new.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// The indexes of the symbols by address, name and version; each of these once, .dynsym before
// .symtab, a typed symbol before a label. An unversioned name outside .dynsym also goes where
// .dynsym has it at that address in whatever versions: linkers leave the version out of most
// .symtab names.
std::vector<std::size_t> order_without_repeats(std::span<const elf::Symbol> symbols);

} // namespace uprobectl
