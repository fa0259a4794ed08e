// The two halves of list_symbols.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// From .dynsym and .symtab.
Result<SymbolList> list_own_symbols(const elf::Image& image, const SymbolFilter& filter);

// From the debug tables that the image has been given.
SymbolList list_debug_symbols(const elf::Image& image, const SymbolFilter& filter);

} // namespace uprobectl
