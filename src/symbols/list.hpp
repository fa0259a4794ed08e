// SPDX-License-Identifier: Apache-2.0
// The steps of list_symbols(): own symbols, debug symbols, their order; and prefetching.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl::symbols {

// Lists the symbols of .dynsym and .symtab.
Result<SymbolList> list_own_symbols(const elf::Image& image, const SymbolFilter& filter);

// Lists the symbols of the debug tables of the image.
SymbolList list_debug_symbols(const elf::Image& image, const SymbolFilter& filter);

// Prefetches the symbol at the index, for a reader that follows the order of the list.
void prefetch(const SymbolList& symbols, std::size_t index);

// Prefetches the symbols of some dozens of names before find_by_name() is called for each of them.
void prefetch_names(const elf::Image& image, std::span<const std::string_view> names);

// Returns the indexes of the symbols, sorted by address, name and version, without repeats. Prefers
// .dynsym to .symtab, and typed symbols to labels. Also drops an unversioned name outside .dynsym
// if .dynsym has it at that address with any version: linkers omit the version of most .symtab
// names.
std::vector<std::size_t> order_without_repeats(std::span<const elf::Symbol> symbols);

// Stable: entries of one address keep their order.
void sort_by_address(std::vector<SymbolList::Entry>& entries);

} // namespace uprobectl::symbols
