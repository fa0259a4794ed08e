#include "elf/hash_tables.hpp"

#include "elf/elf_types.hpp"

#include <bit>

namespace uprobectl::elf {

namespace {

// hash * 33 + c for each character c, modulo 2^32: eight characters at a time, whose sum is made
// pairwise in one register, as names are long and each step would wait for the one before.
// llvm::object::hashGnu takes one at a time.
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

// The arrays of a DT_GNU_HASH, all inside its bytes.
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

  // The chain's word for a symbol; null outside the table.
  const typename ELFT::Word* chained(std::uint32_t index) const {
    const std::uint32_t at = index - first_; // wraps around below first_, which no table reaches
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

// Calls visit with all words of a DT_HASH. LLVM's Elf_Hash knows those of 4 bytes only.
template <typename Visit>
auto with_words(Bytes bytes, const Machine& machine, Visit visit) {
  return with_elf_type(machine, [&]<class ELFT>() {
    return has_wide_words(machine) ? visit(views_in<typename ELFT::Xword>(bytes))
                                   : visit(views_in<typename ELFT::Word>(bytes));
  });
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
    // The loader masks with maskwords - 1, so anything but a power of two finds nothing there.
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
    __builtin_prefetch(&table.bucket(hash)); // comes while the filter is looked at
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
    // A chain that loops has visited every symbol after so many steps: the table may claim more of
    // them than there are words.
    const std::uint64_t most_steps = std::min<std::uint64_t>(symbol_count_, words.size());
    for (std::uint64_t steps = 0; steps < most_steps; ++steps) {
      if (index == 0 || index >= symbol_count_) return;
      visit(static_cast<std::uint32_t>(index));
      index = word(2 + std::uint64_t{bucket_count_} + index);
    }
  });
}

} // namespace uprobectl::elf
