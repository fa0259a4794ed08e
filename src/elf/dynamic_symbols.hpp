// SPDX-License-Identifier: Apache-2.0
// .dynsym, located and searched as the dynamic linker does: by PT_DYNAMIC and a hash table, not by
// section headers.
#pragma once

#include "elf/dynamic_table.hpp"
#include "uprobectl/elf.hpp"

#include <functional>

namespace uprobectl::elf {

// The hash tables return candidate indexes and touch few pages; the caller compares the names.
using VisitIndex = std::function<void(std::uint32_t)>;

// DT_GNU_HASH (binutils bfd/elflink.c; glibc elf/dl-lookup.c do_lookup_x).
class GnuHashTable {
public:
  // Nullopt if the header is truncated or inconsistent.
  static std::optional<GnuHashTable> read(Bytes bytes, const Machine& machine);

  void for_each_candidate(std::string_view name, const VisitIndex& visit) const;
  // The candidates of several names. Prefetches for all names at once: a table of megabytes does
  // not fit into a processor's cache.
  void for_each_candidate(std::span<const std::string_view> names, const VisitIndex& visit) const;
  // Symbols below this index (imports and locals) are not in the table.
  std::uint32_t first_hashed() const { return header_.first; }
  // One past the last symbol; nullopt if no symbol is hashed: GNU ld then writes a first_hashed of
  // 1 for any number of imports.
  std::optional<std::uint32_t> symbol_count() const;

  // A copy of Elf_GnuHash with checked bounds: the file may be written to while it is mapped.
  struct Header {
    std::uint32_t bucket_count = 0;
    std::uint32_t first = 0;
    std::uint32_t filter_words = 0;
    std::uint32_t shift = 0;
  };

private:
  Bytes bytes_;
  Machine machine_;
  Header header_;
};

// DT_HASH (gABI chapter 5, "Hash Table").
class SysvHashTable {
public:
  static std::optional<SysvHashTable> read(Bytes bytes, const Machine& machine);

  void for_each_candidate(std::string_view name, const VisitIndex& visit) const;
  std::uint32_t symbol_count() const { return symbol_count_; } // of the table, unchecked

private:
  Bytes bytes_;
  Machine machine_;
  std::uint32_t bucket_count_ = 0;
  std::uint32_t symbol_count_ = 0;
};

// Locates the tables once that every lookup needs. All functions must be called with the layout
// that was passed to read().
class DynamicSymbols {
public:
  static Result<DynamicSymbols> read(const Layout& layout);

  Result<SymbolTable> table(const Layout& layout) const;
  Result<std::vector<Symbol>> find(const Layout& layout, std::string_view name) const;
  void prefetch(std::span<const std::string_view> names) const;
  KnownVersions versions() const { return versions_; }

private:
  std::uint64_t count(const Layout& layout) const;
  Result<std::vector<Symbol>> scan_all(const Layout& layout, std::string_view name) const;

  std::optional<DynamicTable> dynamic_;
  std::optional<GnuHashTable> gnu_;
  std::optional<SysvHashTable> sysv_; // only read without gnu_, to save a page access
  // From DT_SYMTAB to the end of its segment: sufficient to read a symbol by its index.
  SymbolTable::Parts uncounted_;
  KnownVersions versions_;
};

} // namespace uprobectl::elf
