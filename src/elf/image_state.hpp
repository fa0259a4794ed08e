// What an Image holds. Opening reads the headers and where the tables are;
// the tables themselves are read when asked for.
#pragma once

#include "elf/dynamic_symbols.hpp"
#include "elf/layout.hpp"
#include "elf/notes.hpp"

namespace uprobectl::elf {

struct Image::State {
  State(Layout read, FileOffset start) : layout(std::move(read)), entry_data(start) {}

  Layout layout;
  FileOffset entry_data;
  Result<DynamicSymbols> dynamic = DynamicSymbols::read(layout); // the error is that of each lookup
  std::optional<std::string> build_id = read_build_id(layout);
  BinaryPath path = {};
  std::shared_ptr<const MappedFile> file = {};
  std::unique_ptr<const std::vector<std::byte>> inflated = {}; // owns layout.bytes, where set
  std::vector<SymbolTable> debug_tables = {};
  std::vector<std::shared_ptr<const void>> debug_owners = {}; // of the bytes of debug_tables
};

} // namespace uprobectl::elf
