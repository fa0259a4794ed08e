// SPDX-License-Identifier: Apache-2.0
// The function that an address of an ELF image belongs to: the one engine behind frames and behind
// the numbers that `resolve` is asked for.
#pragma once

#include "uprobectl/symbolize.hpp"
#include "uprobectl/symbols.hpp"

namespace uprobectl::symbolize {

// A symbol or Java method, and how far into it the address lies.
struct CoveringSymbol {
  elf::Symbol symbol; // of a Java method: of the table oat, named by `signature`
  std::uint64_t offset = 0;
  std::size_t shared_with = 0;                       // other Java methods that have the same code
  std::shared_ptr<const std::string> signature = {}; // what symbol.name views
};

class Symbolizer {
public:
  // Borrows both; `methods`: those of an OAT file, else null. Debug symbols count if they were
  // added to the image before, and it has no .symtab.
  explicit Symbolizer(const elf::Image& image, const art::OatFile* methods = nullptr)
      : image_(image), methods_(methods) {}

  // Java methods first, of which an OAT file's symbols name some at most; then symbol_at(). Nullopt
  // in gaps between functions. From the second address on all symbols are sorted for it.
  std::optional<CoveringSymbol> find(VirtualAddress address);
  // Sorts the symbols for the first address already: many will follow.
  void use_index() { uses_index_ = true; }

private:
  std::optional<CoveringSymbol> find_method(VirtualAddress address) const;

  const elf::Image& image_;
  const art::OatFile* methods_;
  bool uses_index_ = false;
  std::optional<SymbolFinder> finder_;
};

Function to_function(const CoveringSymbol& covering);

} // namespace uprobectl::symbolize
