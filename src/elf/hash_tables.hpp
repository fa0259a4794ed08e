// The two symbol hash tables of the dynamic linker. They give the indexes worth comparing, and
// touch only the pages on the way there; names are compared by the caller.
#pragma once

#include "elf/structures.hpp"

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
  std::uint32_t first_hashed() const { return first_hashed_; }
  // One past the last symbol; nothing if no symbol is hashed at all: GNU ld then writes a
  // first_hashed of 1 whatever the number of imports.
  std::optional<std::uint32_t> symbol_count() const;

private:
  std::optional<std::uint32_t> word(std::uint64_t offset) const {
    return read_at<std::uint32_t>(bytes_, offset, machine_.order);
  }
  bool may_contain(std::uint32_t hash) const;
  void walk_chain(std::uint32_t hash, const VisitIndex& visit) const;
  std::uint64_t filter_offset(std::uint32_t hash) const;
  std::uint64_t bucket_offset(std::uint32_t hash) const;
  std::uint64_t chain_offset(std::uint32_t index) const;
  void prefetch(std::uint64_t offset) const;

  Bytes bytes_;
  Machine machine_;
  std::uint32_t bucket_count_ = 0;
  std::uint32_t first_hashed_ = 0;
  std::uint32_t bloom_words_ = 0;
  std::uint32_t bloom_shift_ = 0;
  std::uint64_t buckets_at_ = 0;
};

// DT_HASH (gABI chapter 5, "Hash Table").
class SysvHashTable {
public:
  static std::optional<SysvHashTable> read(Bytes bytes, const Machine& machine);

  void for_each_candidate(std::string_view name, const VisitIndex& visit) const;
  std::uint32_t symbol_count() const { return symbol_count_; } // as the table says, unchecked

private:
  std::optional<std::uint64_t> word(std::uint64_t index) const;

  Bytes bytes_;
  Machine machine_;
  bool wide_ = false; // words of 8 bytes
  std::uint32_t bucket_count_ = 0;
  std::uint32_t symbol_count_ = 0;
};

} // namespace uprobectl::elf
