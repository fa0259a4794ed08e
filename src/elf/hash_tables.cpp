#include "elf/hash_tables.hpp"

#include <algorithm>
#include <bit>

namespace uprobectl::elf {

namespace {

constexpr std::uint64_t gnu_header_size = 16; // four words

// hash * 33 + c for each character c, modulo 2^32: eight characters at a time, whose sum is made
// pairwise in one register, as names are long and each step would wait for the one before.
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

std::uint32_t sysv_hash(std::string_view name) {
  std::uint32_t hash = 0;
  for (const char c : name) {
    hash = (hash << 4) + static_cast<unsigned char>(c);
    hash ^= (hash >> 24) & 0xf0;
    hash &= 0x0fffffff;
  }
  return hash;
}

} // namespace

std::optional<GnuHashTable> GnuHashTable::read(Bytes bytes, const Machine& machine) {
  GnuHashTable table;
  table.bytes_ = bytes;
  table.machine_ = machine;
  const auto buckets = table.word(0);
  const auto first = table.word(4);
  const auto bloom_words = table.word(8);
  const auto bloom_shift = table.word(12);
  if (!buckets || !first || !bloom_words || !bloom_shift) return std::nullopt;
  // The loader masks with bloom_words - 1, so anything but a power of two finds nothing there.
  if (!std::has_single_bit(*bloom_words) || *bloom_shift > 31) return std::nullopt;
  table.bucket_count_ = *buckets;
  table.first_hashed_ = *first;
  table.bloom_words_ = *bloom_words;
  table.bloom_shift_ = *bloom_shift;
  table.buckets_at_ = gnu_header_size + std::uint64_t{*bloom_words} * (machine.is_64bit ? 8 : 4);
  if (!slice(bytes, table.buckets_at_, std::uint64_t{*buckets} * 4)) return std::nullopt;
  return table;
}

std::uint64_t GnuHashTable::filter_offset(std::uint32_t hash) const {
  const std::uint32_t word_size = machine_.is_64bit ? 8 : 4;
  return gnu_header_size + std::uint64_t{(hash / (word_size * 8)) & (bloom_words_ - 1)} * word_size;
}

std::uint64_t GnuHashTable::bucket_offset(std::uint32_t hash) const {
  return buckets_at_ + std::uint64_t{hash % bucket_count_} * 4;
}

bool GnuHashTable::may_contain(std::uint32_t hash) const {
  const std::uint32_t bits = machine_.is_64bit ? 64 : 32;
  const std::uint64_t at = filter_offset(hash);
  const auto filter = machine_.is_64bit ? read_at<std::uint64_t>(bytes_, at, machine_.order)
                                        : std::optional<std::uint64_t>(word(at));
  const std::uint64_t mask =
      std::uint64_t{1} << (hash % bits) | std::uint64_t{1} << ((hash >> bloom_shift_) % bits);
  return filter && (*filter & mask) == mask;
}

std::uint64_t GnuHashTable::chain_offset(std::uint32_t index) const {
  return buckets_at_ + (std::uint64_t{bucket_count_} + (index - first_hashed_)) * 4;
}

void GnuHashTable::prefetch(std::uint64_t offset) const {
  if (offset < bytes_.size()) __builtin_prefetch(&bytes_[offset]);
}

void GnuHashTable::for_each_candidate(std::string_view name, const VisitIndex& visit) const {
  if (bucket_count_ == 0) return;
  const std::uint32_t hash = gnu_hash(name);
  prefetch(bucket_offset(hash)); // comes while the filter is looked at
  if (may_contain(hash)) walk_chain(hash, visit);
}

void GnuHashTable::walk_chain(std::uint32_t hash, const VisitIndex& visit) const {
  std::uint32_t index = *word(bucket_offset(hash));
  if (index == 0 || index < first_hashed_) return;
  for (;; ++index) {
    const auto chained = word(chain_offset(index));
    if (!chained) return;
    if ((*chained | 1) == (hash | 1)) visit(index);
    if ((*chained & 1) != 0 || index == UINT32_MAX) return; // bit 0 ends the chain
  }
}

void GnuHashTable::for_each_candidate(std::span<const std::string_view> names,
                                      const VisitIndex& visit) const {
  if (bucket_count_ == 0) return;
  std::vector<std::uint32_t> hashes;
  hashes.reserve(names.size());
  for (const std::string_view name : names) {
    hashes.push_back(gnu_hash(name));
    prefetch(filter_offset(hashes.back()));
    prefetch(bucket_offset(hashes.back()));
  }
  std::erase_if(hashes, [&](std::uint32_t hash) { return !may_contain(hash); });
  for (const std::uint32_t hash : hashes) prefetch(chain_offset(*word(bucket_offset(hash))));
  for (const std::uint32_t hash : hashes) walk_chain(hash, visit);
}

std::optional<std::uint32_t> GnuHashTable::symbol_count() const {
  std::uint32_t last = 0;
  for (std::uint64_t bucket = 0; bucket < bucket_count_; ++bucket)
    last = std::max(last, *word(buckets_at_ + bucket * 4));
  if (last == 0 || last < first_hashed_) return std::nullopt;
  for (; last < UINT32_MAX; ++last) {
    const auto chained = word(chain_offset(last));
    if (!chained || (*chained & 1) != 0) break;
  }
  return last == UINT32_MAX ? last : last + 1;
}

std::optional<SysvHashTable> SysvHashTable::read(Bytes bytes, const Machine& machine) {
  SysvHashTable table;
  table.bytes_ = bytes;
  table.machine_ = machine;
  // The two ABIs that chose 8-byte words: Alpha's and 64-bit S/390's.
  constexpr std::uint16_t em_alpha = 0x9026; // the unofficial number Linux uses
  table.wide_ = machine.is_64bit && (machine.id == raw::EM_S390 || machine.id == em_alpha);
  const auto buckets = table.word(0);
  const auto symbols = table.word(1);
  if (!buckets || !symbols || *buckets > UINT32_MAX || *symbols > UINT32_MAX) return std::nullopt;
  table.bucket_count_ = static_cast<std::uint32_t>(*buckets);
  table.symbol_count_ = static_cast<std::uint32_t>(*symbols);
  return table;
}

std::optional<std::uint64_t> SysvHashTable::word(std::uint64_t index) const {
  if (wide_) return read_at<std::uint64_t>(bytes_, index * 8, machine_.order);
  return read_at<std::uint32_t>(bytes_, index * 4, machine_.order);
}

void SysvHashTable::for_each_candidate(std::string_view name, const VisitIndex& visit) const {
  if (bucket_count_ == 0) return;
  auto index = word(2 + std::uint64_t{sysv_hash(name) % bucket_count_});
  // A chain that loops has visited every symbol after so many steps: the table may claim more of
  // them than there are words.
  const std::uint64_t words = bytes_.size() / (wide_ ? 8 : 4);
  const std::uint64_t most_steps = std::min<std::uint64_t>(symbol_count_, words);
  for (std::uint64_t steps = 0; steps < most_steps; ++steps) {
    if (!index || *index == 0 || *index >= symbol_count_) return;
    visit(static_cast<std::uint32_t>(*index));
    index = word(2 + std::uint64_t{bucket_count_} + *index);
  }
}

} // namespace uprobectl::elf
