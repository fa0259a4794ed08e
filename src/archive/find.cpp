// Looks up entries by name, suggests names for one that is not there, and finds duplicates.
#include "archive/directory.hpp"
#include "uprobectl/archive.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace uprobectl::archive {

namespace {

constexpr unsigned folder_limit = 8; // letters; what is further off counts one more
constexpr unsigned misspelt = 1000;  // behind every name with the same base name

std::string_view base_name(std::string_view name) { return name.substr(name.rfind('/') + 1); }

std::string_view folder(std::string_view name) {
  return name.substr(0, name.size() - base_name(name).size());
}

// What the folders share in front counts most: who writes arm64 means arm64-v8a, not x86_64,
// although both are four letters away.
unsigned folder_distance(std::string_view wanted, std::string_view name) {
  const auto shared = std::mismatch(wanted.begin(), wanted.end(), name.begin(), name.end());
  const auto unshared = static_cast<std::size_t>(wanted.end() - shared.first);
  const unsigned letters = edit_distance(wanted, name, folder_limit).value_or(folder_limit + 1);
  return static_cast<unsigned>(std::min<std::size_t>(unshared, 64)) * (folder_limit + 2) + letters;
}

// How bad a guess an entry is for the wanted one, or nothing if it is not worth suggesting: first
// those with the same base name in another folder (another ABI, mostly), then those a few letters
// away in the whole or in the base name.
std::optional<unsigned> entry_rank(std::string_view wanted, std::string_view name) {
  const std::string_view base = base_name(wanted);
  if (base_name(name) == base && !base.empty())
    return folder_distance(folder(wanted), folder(name));
  auto rank = guess_rank(wanted, name, suggestion_limit(wanted));
  if (!rank) rank = guess_rank(base, base_name(name), suggestion_limit(base));
  if (!rank) return std::nullopt;
  return misspelt + *rank;
}

} // namespace

} // namespace uprobectl::archive

namespace uprobectl {

Result<ArchiveEntry> Archive::find(std::string_view name) const {
  std::optional<ArchiveEntry> found;
  archive::DirectoryWalk walk(directory_, entry_count_);
  while (const auto record = walk.next()) {
    if (record->name != name) continue;
    const ArchiveEntry entry = archive::decode(*record, prefix_);
    if (found)
      return fail(ErrorKind::duplicated,
                  fmt::format("'{}' occurs more than once, with local headers at {:#x} and {:#x}",
                              name, found->local_header, entry.local_header));
    found = entry;
  }
  // A directory that breaks off may hide a second entry of that name.
  if (auto whole = walk.end(); !whole) return fail(std::move(whole).error());
  if (found) return *found;

  // Names are compared by letters only now: a look-up that succeeds does not pay for it.
  NearestNames near;
  archive::DirectoryWalk again(directory_, entry_count_);
  while (const auto record = again.next())
    if (const auto rank = archive::entry_rank(name, record->name)) near.offer(*rank, record->name);
  Error error{ErrorKind::not_found, fmt::format("no entry '{}'", name)};
  const auto names = std::move(near).take();
  return fail(names.empty() ? error : std::move(error).hint(did_you_mean(names)));
}

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
  std::uint64_t word = 0;
  if (name.size() < sizeof(word)) {
    if (!name.empty()) std::memcpy(&word, name.data(), name.size());
    mix(word);
    return hash;
  }
  // The last word may overlap the one before: the size, which is mixed in, says by how much.
  const std::string_view last = name.substr(name.size() - sizeof(word));
  for (; name.size() > sizeof(word); name.remove_prefix(sizeof(word))) {
    std::memcpy(&word, name.data(), sizeof(word));
    mix(word);
  }
  std::memcpy(&word, last.data(), sizeof(word));
  mix(word);
  return hash;
}

// Open addressing, two thirds full at the most. Keeps half of each hash, the other half says where
// it is looked for: names that only seem equal are as good as never met, and a page of the table
// holds a thousand of them.
class HashSet {
public:
  explicit HashSet(std::size_t most) : slots_(std::bit_ceil(most + most / 2 + 1)) {}

  // False if it was there.
  bool insert(std::uint64_t hash) {
    const auto tag = std::max(static_cast<std::uint32_t>(hash >> 32), 1U); // 0 marks a free slot
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at] != 0 && slots_[at] != tag) at = (at + 1) & mask;
    return std::exchange(slots_[at], tag) != tag;
  }

private:
  std::vector<std::uint32_t> slots_;
};

} // namespace

Result<std::optional<Archive::Duplicate>> Archive::duplicate() const {
  HashSet seen(std::min(directory_.size() / archive::record_fixed_size, most_entries));
  std::size_t looked_at = 0;
  int suspects = 0;
  archive::DirectoryWalk walk(directory_, entry_count_);
  while (const auto record = walk.next()) {
    if (++looked_at > most_entries)
      return fail(ErrorKind::unsupported,
                  fmt::format("only its first {} entries were searched for names that occur twice",
                              most_entries));
    if (seen.insert(hash_of(record->name))) continue;
    if (++suspects > most_suspects)
      return fail(ErrorKind::unsupported,
                  fmt::format("only its first {} entries were searched for names that occur twice: "
                              "too many look alike",
                              looked_at - 1));
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
