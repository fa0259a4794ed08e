#include "archive/directory.hpp"

#include <utility>
#include <vector>

namespace uprobectl {

namespace {

constexpr std::size_t most_entries = 1U << 20;
constexpr int most_suspects = 16; // names of one hash: hardly ever chance

// Eight bytes at a time: the directory of a large archive has megabytes of names.
std::uint64_t hash_of(std::string_view name) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15; // 2^64 / golden ratio
  std::uint64_t hash = name.size() * odd;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * odd;
    hash ^= hash >> 32;
  };
  while (name.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, name.data(), sizeof(word));
    mix(word);
    name.remove_prefix(sizeof(word));
  }
  std::uint64_t rest = 0;
  if (!name.empty()) std::memcpy(&rest, name.data(), name.size());
  mix(rest);
  return hash | 1; // 0 marks a free slot
}

// Open addressing, half full at the most.
class HashSet {
public:
  HashSet() : slots_(1024) {}

  // False if it was there.
  bool insert(std::uint64_t hash) {
    if (2 * size_ >= slots_.size()) grow();
    std::uint64_t& slot = slot_of(hash);
    if (slot == hash) return false;
    slot = hash;
    ++size_;
    return true;
  }
  std::size_t size() const { return size_; }

private:
  std::uint64_t& slot_of(std::uint64_t hash) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = (hash >> 1) & mask;
    while (slots_[at] != 0 && slots_[at] != hash) at = (at + 1) & mask;
    return slots_[at];
  }

  void grow() {
    const auto old = std::exchange(slots_, std::vector<std::uint64_t>(4 * slots_.size()));
    for (const std::uint64_t hash : old)
      if (hash != 0) slot_of(hash) = hash;
  }

  std::vector<std::uint64_t> slots_;
  std::size_t size_ = 0;
};

} // namespace

std::optional<Archive::Duplicate> Archive::duplicate() const {
  HashSet seen;
  int suspects = 0;
  archive::DirectoryWalk walk(directory_, entry_count_);
  while (const auto record = walk.next()) {
    if (seen.insert(hash_of(record->name))) {
      if (seen.size() == most_entries) return std::nullopt;
      continue;
    }
    if (++suspects > most_suspects) return std::nullopt;
    archive::DirectoryWalk again(directory_, entry_count_);
    while (const auto earlier = again.next()) {
      if (earlier->fixed.data() == record->fixed.data()) break;
      if (earlier->name == record->name)
        return Duplicate{.name = record->name,
                         .first = archive::decode(*earlier, prefix_).local_header,
                         .second = archive::decode(*record, prefix_).local_header};
    }
  }
  return std::nullopt;
}

} // namespace uprobectl
