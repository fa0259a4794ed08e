// SPDX-License-Identifier: Apache-2.0
// Listing symbols: the two halves of list_symbols, and the order of a listing.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// From .dynsym and .symtab.
Result<SymbolList> list_own_symbols(const elf::Image& image, const SymbolFilter& filter);

// From the debug tables that the image has been given.
SymbolList list_debug_symbols(const elf::Image& image, const SymbolFilter& filter);

// Prefetches a symbol that is read soon, by a reader in the order of the list.
void prefetch(const SymbolList& symbols, std::size_t index);

// Prefetches the symbols of some dozens of names before find_by_name() is called for each of them.
void prefetch_names(const elf::Image& image, std::span<const std::string_view> names);

// The indexes of the symbols by address, name and version, without repeats; .dynsym is preferred
// over .symtab, a typed symbol over a label. An unversioned name outside .dynsym is also dropped if
// .dynsym has it at that address with any version: linkers omit the version of most .symtab names.
std::vector<std::size_t> order_without_repeats(std::span<const elf::Symbol> symbols);

// Stable: places of one address keep their order.
void sort_by_address(std::vector<SymbolList::Place>& places);

} // namespace uprobectl
