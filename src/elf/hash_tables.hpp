// The two symbol hash tables of the dynamic linker. They give the indexes worth comparing, and
// touch only the pages on the way there; names are compared by the caller.
#pragma once

#include "uprobectl/elf.hpp"

#include <functional>

namespace uprobectl::elf {

using VisitIndex = std::function<void(std::uint32_t)>;

// DT_GNU_HASH (binutils bfd/elflink.c; glibc elf/dl-lookup.c do_lookup_x).
class GnuHashTable {
public:
  // Nothing if the header lies outside the bytes or contradicts itself.
  static std::optional<GnuHashTable> read(Bytes bytes, const Machine& machine);

  void for_each_candidate(std::string_view name, const VisitIndex& visit) const;
  // The candidates of several names, found with one wait for the memory of all instead of one for
  // each: a table of megabytes is in no processor's cache.
  void for_each_candidate(std::span<const std::string_view> names, const VisitIndex& visit) const;
  // Symbols below this index (imports and locals) are not in the table.
  std::uint32_t first_hashed() const { return header_.first; }
  // One past the last symbol; nothing if no symbol is hashed at all: GNU ld then writes a
  // first_hashed of 1 whatever the number of imports.
  std::optional<std::uint32_t> symbol_count() const;

  // Elf_GnuHash as it was when its bounds were checked: somebody may write to the file meanwhile.
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
  std::uint32_t symbol_count() const { return symbol_count_; } // as the table says, unchecked

private:
  Bytes bytes_;
  Machine machine_;
  std::uint32_t bucket_count_ = 0;
  std::uint32_t symbol_count_ = 0;
};

} // namespace uprobectl::elf
