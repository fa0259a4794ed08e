// SPDX-License-Identifier: Apache-2.0
// One ELF file, or one entry of an archive, and what is read of it: the debug symbols, the debug
// information, and the index of symbols by address. Each is read once, when it is first needed.
// Nothing else opens an image or its debug information (tests/lint/openers.py).
#pragma once

#include "dwarf/dwarf.hpp"
#include "uprobectl/symbols.hpp"

namespace uprobectl::binary {

// Keeps the file open. Not thread-safe.
class Binary {
public:
  // `where`: see elf::Image::add_debug_file(). Errors are those of elf::Image::open().
  static Result<std::shared_ptr<Binary>> open(std::shared_ptr<const MappedFile> file,
                                              const BinaryPath& path, elf::DebugSearch where = {},
                                              elf::Compressed compressed = elf::Compressed::reject);
  static Result<std::shared_ptr<Binary>> open(const std::string& file);
  // The bytes must outlive it. entry_data is the offset of the image in its file.
  static Result<std::shared_ptr<Binary>> parse(Bytes bytes, FileOffset entry_data,
                                               elf::DebugSearch where = {});
  explicit Binary(elf::Image image, elf::DebugSearch where = {})
      : image_(std::move(image)), where_(std::move(where)) {}
  Binary(const Binary&) = delete;
  Binary& operator=(const Binary&) = delete;

  elf::Image& image() { return image_; }
  const elf::DebugSearch& debug_search() const { return where_; }

  // Adds the next source that has symbols to the image: .gnu_debugdata, then the debug file.
  // Returns false if there is none left. Sources are read one at a time and only when a query needs
  // them, because reading them takes longer than everything else.
  bool add_next_symbols();
  // Adds all sources unless the .symtab is whole. Queries that need all symbols call it.
  void complete_symbols();
  // Where the symbols that were added came from.
  const elf::SymbolSources& symbol_sources() const { return symbol_sources_; }

  // Finds the symbol at an address, as symbol_at() of symbols.hpp does. The first call scans the
  // tables, the second sorts all symbols, so that later calls are fast. Uses debug symbols that
  // have been added so far.
  std::optional<symbols::SymbolAt> symbol_at(VirtualAddress address);
  // See symbols::SymbolFinder::label_end(). Sorts all symbols.
  std::optional<VirtualAddress> label_end(VirtualAddress label);
  // Makes the next symbol_at() sort the symbols at once, because many calls will follow.
  void expect_many_addresses() { uses_index_ = true; }

  const Result<dwarf::DebugInfo>& debug_info();
  bool has_opened_debug_info() const { return debug_info_.has_value(); }
  // Frees the debug information until it is needed again.
  void close_debug_info() { debug_info_.reset(); }

private:
  enum class Source { embedded, file, nothing };

  symbols::SymbolFinder& index();

  elf::Image image_;
  elf::DebugSearch where_;
  Source next_source_ = Source::embedded;
  elf::SymbolSources symbol_sources_;
  std::optional<Result<dwarf::DebugInfo>> debug_info_;
  bool uses_index_ = false;
  std::optional<symbols::SymbolFinder> index_;
  std::size_t indexed_tables_ = 0; // number of debug symbol tables that index_ has
};

// Whether the image has a .symtab with symbols.
bool has_symtab(const elf::Image& image);

} // namespace uprobectl::binary
