// SPDX-License-Identifier: Apache-2.0
// Finds the function that covers an address of an ELF image. Used for frames and for addresses
// given to `resolve`, so that both agree.
#pragma once

#include "symbolize/debug_file_symbols.hpp"
#include "uprobectl/symbols.hpp"

namespace uprobectl::symbolize {

// The symbol or Java method that covers an address.
struct CoveringSymbol {
  elf::Symbol symbol;          // for a Java method: table oat, named by its signature
  std::uint64_t offset = 0;    // of the address from the start of the symbol
  std::size_t shared_with = 0; // number of other Java methods with the same code
  std::shared_ptr<const std::string> signature = {}; // owns the name of a Java method
  std::optional<std::string> source_name = {};       // of a Java method that was renamed
};

// Symbolizes addresses of one image.
class Symbolizer {
public:
  // Borrows both. `methods` are those of an OAT file, or null. Debug symbols are used if they were
  // added to the image before and it has no .symtab.
  explicit Symbolizer(const elf::Image& image, const art::OatFile* methods = nullptr)
      : image_(image), methods_(methods) {}

  // Searches Java methods, then symbols as symbol_at() does. Returns nullopt in gaps between
  // functions. The second call sorts all symbols, so that later calls are fast.
  std::optional<CoveringSymbol> find(VirtualAddress address);
  // Lets the first call sort the symbols already, if many calls will follow.
  void use_index() { uses_index_ = true; }

private:
  std::optional<CoveringSymbol> find_method(VirtualAddress address) const;
  std::optional<SymbolAt> find_symbol(VirtualAddress address);

  const elf::Image& image_;
  const art::OatFile* methods_;
  bool uses_index_ = false;
  std::optional<SymbolFinder> finder_;
  // Of a debug file without code, whose segments are empty. nullopt: it is none, or not known yet.
  std::optional<DebugFileSymbols> debug_file_;
  bool checked_debug_file_ = false;
};

// Demangles and copies the names, so that the result does not depend on the image.
Function to_function(const CoveringSymbol& covering);

} // namespace uprobectl::symbolize
