// SPDX-License-Identifier: Apache-2.0
// Finds the function that covers an address of an ELF image. Used for frames and for addresses
// given to `resolve`, so that both agree.
#pragma once

#include "binary/binary.hpp"
#include "uprobectl/symbolize.hpp"

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
  // Borrows both. `methods` are those of an OAT file, or null.
  explicit Symbolizer(binary::Binary& file, const art::OatFile* methods = nullptr)
      : file_(file), methods_(methods) {}

  // Searches Java methods, then symbols as Binary::symbol_at() does. Returns nullopt in gaps
  // between functions.
  std::optional<CoveringSymbol> find(VirtualAddress address);

private:
  std::optional<CoveringSymbol> find_method(VirtualAddress address) const;

  binary::Binary& file_;
  const art::OatFile* methods_;
};

// Demangles and copies the names, so that the result does not depend on the image.
Function to_function(const CoveringSymbol& covering);

} // namespace uprobectl::symbolize
