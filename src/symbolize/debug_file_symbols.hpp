// SPDX-License-Identifier: Apache-2.0
// Symbols of a debug file without code (objcopy --only-keep-debug, eu-strip -f). Its segments have
// no bytes, so the lookups that need an image with code do not find anything in it.
#pragma once

#include "uprobectl/symbolize.hpp"
#include "uprobectl/symbols.hpp"

namespace uprobectl::symbolize {

class DebugFileSymbols {
public:
  // Reads .symtab. Borrows the image.
  explicit DebugFileSymbols(const elf::Image& image);

  // Returns the function that covers the address: of several the one that begins last, then global
  // before weak before local, then the first of the table. A symbol without size extends up to the
  // next one.
  std::optional<SymbolAt> at(VirtualAddress address) const;

private:
  struct Entry {
    VirtualAddress address;
    std::uint64_t size = 0;
    int rank = 0; // the lowest is preferred
    std::uint32_t index = 0;
    std::uint64_t max_end = 0; // of this entry and all before
  };

  elf::SymbolTable table_;
  std::vector<Entry> entries_; // by address, then the preferred one last
};

} // namespace uprobectl::symbolize
