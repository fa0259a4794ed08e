// SPDX-License-Identifier: Apache-2.0
#include "elf/dynamic_symbols.hpp"

#include "elf/elf_types.hpp"
#include "elf/prefetch.hpp"
#include "elf/sections.hpp"

#include <bit>
#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

// hash * 33 + c for each character c, modulo 2^32. Takes eight characters at a time and adds them
// pairwise, because names are long and each single step depends on the previous one, as in
// llvm::object::hashGnu.
std::uint32_t gnu_hash(std::string_view name) {
  constexpr std::uint64_t p1 = 33;
  constexpr std::uint64_t p2 = p1 * p1;
  constexpr std::uint64_t p4 = p2 * p2;
  std::uint32_t hash = 5381;
  std::size_t i = 0;
  for (; i + 8 <= name.size(); i += 8) {
    std::uint64_t sum = 0;
    std::memcpy(&sum, name.data() + i, 8); // little-endian: the first character lowest
    sum = (sum & 0x00ff00ff00ff00ff) * p1 + (sum >> 8 & 0x00ff00ff00ff00ff);
    sum = (sum & 0x0000ffff0000ffff) * p2 + (sum >> 16 & 0x0000ffff0000ffff);
    sum = (sum & 0xffffffff) * p4 + (sum >> 32);
    hash = static_cast<std::uint32_t>(hash * (p4 * p4) + sum);
  }
  for (; i < name.size(); ++i) hash = hash * 33 + static_cast<unsigned char>(name[i]);
  return hash;
}

// The arrays of a DT_GNU_HASH whose bounds were checked.
template <class ELFT>
class GnuHashView {
public:
  GnuHashView(Bytes bytes, const GnuHashTable::Header& header)
      : first_(header.first), shift_(header.shift) {
    const std::uint64_t filter_size = header.filter_words * std::uint64_t{sizeof(Off)};
    const std::uint64_t buckets_size = header.bucket_count * std::uint64_t{sizeof(Word)};
    const Bytes arrays = bytes.subspan(sizeof(typename ELFT::GnuHash));
    filter_ = views_in<Off>(arrays.first(filter_size));
    buckets_ = views_in<Word>(arrays.subspan(filter_size, buckets_size));
    chains_ = views_in<Word>(arrays.subspan(filter_size + buckets_size));
  }

  llvm::ArrayRef<typename ELFT::Word> buckets() const { return buckets_; }

  // The chain word of a symbol; null if it is not in the table.
  const typename ELFT::Word* chained(std::uint32_t index) const {
    const std::uint32_t at = index - first_; // wraps around below first_, beyond any table
    return at < chains_.size() ? &chains_[at] : nullptr;
  }
  const typename ELFT::Off& filter_word(std::uint32_t hash) const {
    return filter_[(hash / bits) & (filter_.size() - 1)];
  }
  const typename ELFT::Word& bucket(std::uint32_t hash) const {
    return buckets_[hash % static_cast<std::uint32_t>(buckets_.size())];
  }

  bool may_contain(std::uint32_t hash) const {
    const std::uint64_t mask = std::uint64_t{1} << (hash % bits) | std::uint64_t{1}
                                                                       << ((hash >> shift_) % bits);
    return (filter_word(hash) & mask) == mask;
  }

  void walk_chain(std::uint32_t hash, const VisitIndex& visit) const {
    std::uint32_t index = bucket(hash);
    if (index == 0 || index < first_) return;
    for (;; ++index) {
      const Word* const word = chained(index);
      if (word == nullptr) return;
      const std::uint32_t value = *word;
      if ((value | 1) == (hash | 1)) visit(index);
      if ((value & 1) != 0 || index == UINT32_MAX) return; // bit 0 ends the chain
    }
  }

private:
  using Off = typename ELFT::Off;
  using Word = typename ELFT::Word;
  static constexpr std::uint32_t bits = sizeof(Off) * 8;

  llvm::ArrayRef<Off> filter_;
  llvm::ArrayRef<Word> buckets_;
  llvm::ArrayRef<Word> chains_; // from the first hashed symbol to the end of the segment
  std::uint32_t first_ = 0;
  std::uint32_t shift_ = 0;
};

bool has_wide_words(const Machine& machine) {
  return machine.is_64bit && machine.info().wide_hash_words;
}

// Calls visit with the words of a DT_HASH. LLVM's Elf_Hash supports 4-byte words only.
template <typename Visit>
auto with_words(Bytes bytes, const Machine& machine, Visit visit) {
  return with_elf_type(machine, [&]<class ELFT>() {
    return has_wide_words(machine) ? visit(views_in<typename ELFT::Xword>(bytes))
                                   : visit(views_in<typename ELFT::Word>(bytes));
  });
}

// Versions have 15 bits, so a valid table has no more symbols of one name.
constexpr std::size_t max_matches = 32768;

std::optional<SysvHashTable> read_sysv_hash(const Layout& layout, const DynamicTable& dynamic) {
  if (!dynamic.hash) return std::nullopt;
  const auto bytes = bytes_from(layout, *dynamic.hash);
  if (!bytes) return std::nullopt;
  return SysvHashTable::read(*bytes, layout.machine);
}

std::optional<GnuHashTable> read_gnu_hash(const Layout& layout, const DynamicTable& dynamic) {
  if (!dynamic.gnu_hash) return std::nullopt;
  const auto bytes = bytes_from(layout, *dynamic.gnu_hash);
  if (!bytes) return std::nullopt;
  return GnuHashTable::read(*bytes, layout.machine);
}

// The table up to the end of its segment, with trailing bytes that are not symbols; see
// limit_entries().
Result<SymbolTable::Parts> uncounted_parts(const Layout& layout, const DynamicTable& dynamic) {
  const std::uint64_t size = symbol_size(layout.machine);
  if (dynamic.symbol_size != 0 && dynamic.symbol_size != size)
    return fail(ErrorKind::corrupt,
                fmt::format("DT_SYMENT is {} bytes, expected {}", dynamic.symbol_size, size));
  const auto entries = bytes_from(layout, *dynamic.symbols);
  if (!entries) return fail(unmapped(layout, "DT_SYMTAB", *dynamic.symbols));
  const auto strings = dynamic_strings(layout, dynamic);
  if (!strings) return fail(strings.error());

  SymbolTable::Parts parts{layout.machine, Table::dynsym, *entries, *strings, {}, nullptr};
  if (dynamic.versions)
    if (const auto versions = bytes_from(layout, *dynamic.versions)) {
      parts.versions = *versions;
      parts.version_names = std::make_shared<const std::vector<VersionName>>(
          read_version_names(layout, dynamic, *strings));
    }
  return parts;
}

SymbolTable limit_entries(SymbolTable::Parts parts, std::uint64_t count) {
  const std::uint64_t size = symbol_size(parts.machine);
  const std::uint64_t available = parts.entries.size() / size;
  parts.entries = parts.entries.first(std::min(count, available) * size);
  return SymbolTable(std::move(parts));
}

void add_if_named(const SymbolTable& table, std::uint32_t index, std::string_view name,
                  std::vector<Symbol>& found) {
  if (found.size() >= max_matches || !table.has_name(index, name)) return;
  if (const auto symbol = table.at(index)) found.push_back(*symbol);
}

std::vector<Symbol> scan(const SymbolTable& table, std::uint32_t end, std::string_view name) {
  std::vector<Symbol> found;
  for (std::uint32_t index = 1; index < std::min(end, table.size()); ++index)
    add_if_named(table, index, name, found);
  return found;
}

KnownVersions sorted_by_name(const SymbolTable::Parts& parts) {
  if (!parts.version_names) return std::make_shared<const std::vector<VersionName>>();
  auto names = std::make_shared<std::vector<VersionName>>(*parts.version_names);
  std::erase_if(*names, [](const VersionName& each) { return each.name.empty(); });
  std::ranges::sort(*names, {}, &VersionName::name);
  return names;
}

} // namespace

std::optional<GnuHashTable> GnuHashTable::read(Bytes bytes, const Machine& machine) {
  return with_elf_type(machine, [&]<class ELFT>() -> std::optional<GnuHashTable> {
    const auto* const found = view_at<typename ELFT::GnuHash>(bytes, 0);
    if (found == nullptr) return std::nullopt;
    const Header header{.bucket_count = found->nbuckets,
                        .first = found->symndx,
                        .filter_words = found->maskwords,
                        .shift = found->shift2};
    // The loader masks with maskwords - 1, which requires a power of two.
    if (!std::has_single_bit(header.filter_words) || header.shift > 31) return std::nullopt;
    const std::uint64_t arrays = header.filter_words * std::uint64_t{sizeof(typename ELFT::Off)} +
                                 header.bucket_count * std::uint64_t{sizeof(typename ELFT::Word)};
    if (!slice(bytes, sizeof(*found), arrays)) return std::nullopt;
    GnuHashTable table;
    table.bytes_ = bytes;
    table.machine_ = machine;
    table.header_ = header;
    return table;
  });
}

void GnuHashTable::for_each_candidate(std::string_view name, const VisitIndex& visit) const {
  with_elf_type(machine_, [&]<class ELFT>() {
    const GnuHashView<ELFT> table(bytes_, header_);
    if (table.buckets().empty()) return;
    const std::uint32_t hash = gnu_hash(name);
    if (table.may_contain(hash)) table.walk_chain(hash, visit);
  });
}

void GnuHashTable::for_each_candidate(std::span<const std::string_view> names,
                                      const VisitIndex& visit) const {
  with_elf_type(machine_, [&]<class ELFT>() {
    const GnuHashView<ELFT> table(bytes_, header_);
    if (table.buckets().empty()) return;
    std::vector<std::uint32_t> hashes;
    hashes.reserve(names.size());
    for (const std::string_view name : names) {
      hashes.push_back(gnu_hash(name));
      __builtin_prefetch(&table.filter_word(hashes.back()));
      __builtin_prefetch(&table.bucket(hashes.back()));
    }
    std::erase_if(hashes, [&](std::uint32_t hash) { return !table.may_contain(hash); });
    for (const std::uint32_t hash : hashes)
      if (const auto* const word = table.chained(table.bucket(hash))) __builtin_prefetch(word);
    for (const std::uint32_t hash : hashes) table.walk_chain(hash, visit);
  });
}

std::optional<std::uint32_t> GnuHashTable::symbol_count() const {
  return with_elf_type(machine_, [&]<class ELFT>() -> std::optional<std::uint32_t> {
    const GnuHashView<ELFT> table(bytes_, header_);
    std::uint32_t last = 0;
    for (const std::uint32_t bucket : table.buckets()) last = std::max(last, bucket);
    if (last == 0 || last < first_hashed()) return std::nullopt;
    for (; last < UINT32_MAX; ++last) {
      const auto* const word = table.chained(last);
      if (word == nullptr || (*word & 1) != 0) break;
    }
    return last == UINT32_MAX ? last : last + 1;
  });
}

std::optional<SysvHashTable> SysvHashTable::read(Bytes bytes, const Machine& machine) {
  return with_words(bytes, machine, [&](auto words) -> std::optional<SysvHashTable> {
    if (words.size() < 2 || words[0] > UINT32_MAX || words[1] > UINT32_MAX) return std::nullopt;
    SysvHashTable table;
    table.bytes_ = bytes;
    table.machine_ = machine;
    table.bucket_count_ = static_cast<std::uint32_t>(words[0]);
    table.symbol_count_ = static_cast<std::uint32_t>(words[1]);
    return table;
  });
}

void SysvHashTable::for_each_candidate(std::string_view name, const VisitIndex& visit) const {
  if (bucket_count_ == 0) return;
  with_words(bytes_, machine_, [&](auto words) {
    const auto word = [&](std::uint64_t index) -> std::uint64_t {
      return index < words.size() ? std::uint64_t{words[index]} : 0;
    };
    std::uint64_t index =
        word(2 + llvm::object::hashSysV({name.data(), name.size()}) % std::uint64_t{bucket_count_});
    // Ends chains with a loop, even if the table claims more symbols than it has words.
    const std::uint64_t max_steps = std::min<std::uint64_t>(symbol_count_, words.size());
    for (std::uint64_t steps = 0; steps < max_steps; ++steps) {
      if (index == 0 || index >= symbol_count_) return;
      visit(static_cast<std::uint32_t>(index));
      index = word(2 + std::uint64_t{bucket_count_} + index);
    }
  });
}

Result<DynamicSymbols> DynamicSymbols::read(const Layout& layout) {
  DynamicSymbols symbols;
  auto dynamic = read_dynamic(layout);
  if (!dynamic) return fail(std::move(dynamic).error());
  symbols.dynamic_ = *dynamic;
  if (!symbols.dynamic_ || !symbols.dynamic_->symbols) return symbols;
  symbols.gnu_ = read_gnu_hash(layout, *symbols.dynamic_);
  if (!symbols.gnu_) symbols.sysv_ = read_sysv_hash(layout, *symbols.dynamic_);
  auto parts = uncounted_parts(layout, *symbols.dynamic_);
  if (!parts) return fail(std::move(parts).error());
  symbols.uncounted_ = std::move(*parts);
  symbols.versions_ = sorted_by_name(symbols.uncounted_);
  return symbols;
}

// DT_HASH has the count; other sources have to be searched.
std::uint64_t DynamicSymbols::count(const Layout& layout) const {
  const auto sysv = sysv_ ? sysv_ : read_sysv_hash(layout, *dynamic_);
  if (sysv) return sysv->symbol_count();
  if (gnu_)
    if (const auto count = gnu_->symbol_count()) return *count;
  if (const auto count = section_symbol_count(layout, *dynamic_->symbols)) return *count;
  // Linkers put the string table directly after the symbols; glibc's dladdr() relies on it too.
  if (dynamic_->strings && *dynamic_->strings > *dynamic_->symbols)
    return (dynamic_->strings->value - dynamic_->symbols->value) / symbol_size(layout.machine);
  return 0;
}

Result<SymbolTable> DynamicSymbols::table(const Layout& layout) const {
  if (!dynamic_) return section_symbols(layout, raw::SHT_DYNSYM, Table::dynsym);
  if (!dynamic_->symbols) return SymbolTable();
  return limit_entries(uncounted_, count(layout));
}

Result<std::vector<Symbol>> DynamicSymbols::scan_all(const Layout& layout,
                                                     std::string_view name) const {
  const auto all = table(layout);
  if (!all) return fail(all.error());
  return scan(*all, UINT32_MAX, name);
}

Result<std::vector<Symbol>> DynamicSymbols::find(const Layout& layout,
                                                 std::string_view name) const {
  if (!gnu_ && !sysv_) return scan_all(layout, name);
  std::vector<Symbol> found;
  const SymbolTable table(uncounted_);
  const auto visit = [&](std::uint32_t index) { add_if_named(table, index, name, found); };
  const VisitIndex add = std::cref(visit); // does not allocate
  if (!gnu_) {
    sysv_->for_each_candidate(name, add);
    return found;
  }
  gnu_->for_each_candidate(name, add);
  if (!found.empty()) return found;
  // Imports: below first_hashed, or anywhere if nothing is hashed.
  if (gnu_->symbol_count()) return scan(table, gnu_->first_hashed(), name);
  return scan_all(layout, name);
}

void DynamicSymbols::prefetch(std::span<const std::string_view> names) const {
  if (!gnu_) return;
  const SymbolTable table(uncounted_);
  std::vector<std::uint32_t> indexes;
  gnu_->for_each_candidate(names, [&](std::uint32_t index) {
    if (indexes.size() == 2 * names.size()) return; // a malicious chain has millions
    Prefetch::entry(table, index);
    indexes.push_back(index);
  });
  for (const std::uint32_t index : indexes) Prefetch::name(table, index);
}

} // namespace uprobectl::elf
