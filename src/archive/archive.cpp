// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/archive.hpp"
#include "archive/directory.hpp"
#include "util/inflate.hpp"
#include "util/mapped_file.hpp"
#include "util/spelling.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace uprobectl::archive {

namespace {

// The highest possible end of the entry's data, for any local header.
std::uint64_t max_data_end(const ArchiveEntry& entry) {
  const std::uint64_t headers = local_fixed_size + entry.name.size() + max_local_extra_size;
  const auto start = checked_add(entry.local_header, headers);
  return checked_add(start.value_or(UINT64_MAX), entry.compressed_size).value_or(UINT64_MAX);
}

bool may_contain(const ArchiveEntry& entry, std::uint64_t offset) {
  return entry.local_header <= offset && offset < max_data_end(entry);
}

constexpr std::string_view only_stored = "the kernel can only probe bytes stored as they are";

// Adds hints on how to store the entry uncompressed. Android's build options are for libraries
// only.
Error with_storing_hints(Error error, std::string_view name) {
  if (!name.starts_with("lib/") && !name.ends_with(".so"))
    return std::move(error).hint("store it uncompressed: zip -0");
  return std::move(error)
      .hint("build the app with android:extractNativeLibs=\"false\" (Gradle: "
            "packaging.jniLibs.useLegacyPackaging = false), then zipalign -p 4")
      .hint(
          "with extractNativeLibs=\"true\" the device extracts the library to the app's lib folder: "
          "probe it there, at the offset that resolve --extracted prints");
}

constexpr unsigned max_folder_distance = 8; // letters
constexpr unsigned misspelt_rank = 1000;    // after every name with the same base name

std::string_view base_name(std::string_view name) { return name.substr(name.rfind('/') + 1); }

std::string_view folder(std::string_view name) {
  return name.substr(0, name.size() - base_name(name).size());
}

// A common prefix counts most: arm64 is closer to arm64-v8a than to x86_64, although both differ by
// four letters.
unsigned folder_distance(std::string_view requested, std::string_view name) {
  const auto shared = std::mismatch(requested.begin(), requested.end(), name.begin(), name.end());
  const auto unshared = static_cast<std::size_t>(requested.end() - shared.first);
  const unsigned letters =
      edit_distance(requested, name, max_folder_distance).value_or(max_folder_distance + 1);
  return static_cast<unsigned>(std::min<std::size_t>(unshared, 64)) * (max_folder_distance + 2) +
         letters;
}

// Ranks an entry as a suggestion, 0 being the best; nullopt if it is not worth suggesting. First
// come those with the same base name in another folder (usually another ABI), then those that
// differ by a few letters in the whole name or in the base name.
std::optional<unsigned> entry_rank(std::string_view requested, std::string_view name) {
  const std::string_view base = base_name(requested);
  if (base_name(name) == base && !base.empty())
    return folder_distance(folder(requested), folder(name));
  auto rank = suggestion_rank(requested, name, suggestion_limit(requested));
  if (!rank) rank = suggestion_rank(base, base_name(name), suggestion_limit(base));
  if (!rank) return std::nullopt;
  return misspelt_rank + *rank;
}

constexpr std::size_t max_entries = 1U << 20;
constexpr int max_collisions = 16; // different names with one hash: hardly ever by chance

// Eight bytes at a time: the directory of a large archive has megabytes of names.
std::uint64_t hash_entry_name(std::string_view name) {
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
  // The last word may overlap the one before. The hash includes the size, so it stays unambiguous.
  const std::string_view last = name.substr(name.size() - sizeof(word));
  for (; name.size() > sizeof(word); name.remove_prefix(sizeof(word))) {
    std::memcpy(&word, name.data(), sizeof(word));
    mix(word);
  }
  std::memcpy(&word, last.data(), sizeof(word));
  mix(word);
  return hash;
}

// A hash set with open addressing, at most two thirds full. The position of a slot comes from one
// half of the hash, its value is the other half: a page holds a thousand hashes.
class HashSet {
public:
  explicit HashSet(std::size_t max_size) : slots_(std::bit_ceil(max_size + max_size / 2 + 1)) {}

  // Returns false if the hash was there already.
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

Result<Archive> Archive::parse(Bytes bytes) {
  const auto location = archive::locate_directory(bytes);
  if (!location) return fail(location.error());
  const auto directory = slice(bytes, location->offset, location->size);
  if (!directory) return fail(ErrorKind::corrupt, "the central directory is outside the file");
  Archive result;
  result.bytes_ = bytes;
  result.directory_ = *directory;
  result.entry_count_ = location->entry_count;
  result.prefix_ = location->prefix;
  return result;
}

bool Archive::looks_like_archive(Bytes bytes) {
  const auto first = read_at<std::uint32_t>(bytes, 0);
  // An archive without entries begins with its end record.
  return first == local_signature || first == end_signature || archive::ends_like_archive(bytes);
}

Result<void> Archive::for_each(const std::function<bool(const ArchiveEntry&)>& visit) const {
  DirectoryWalk walk(directory_, entry_count_);
  while (const auto record = walk.next())
    if (!visit(archive::decode(*record, prefix_))) return {};
  return walk.end();
}

std::uint64_t Archive::directory_offset() const {
  return static_cast<std::uint64_t>(directory_.data() - bytes_.data());
}

Result<FileOffset> Archive::data_offset(const ArchiveEntry& entry) const {
  const auto start = archive::data_start(bytes_, directory_offset(), entry);
  if (!start) return fail(start.error());
  return FileOffset{*start};
}

Result<bool> Archive::contains(const ArchiveEntry& entry, FileOffset offset) const {
  const auto start = data_offset(entry);
  if (!start) return fail(start.error());
  return offset >= *start && offset.value - start->value < entry.compressed_size;
}

Result<std::optional<ArchiveEntry>> Archive::entry_at(FileOffset offset) const {
  if (offset.value >= directory_offset()) return std::nullopt;

  // The last local header before the offset; the directory has no fixed order.
  std::optional<ArchiveEntry> nearest;
  const auto walked = for_each([&](const ArchiveEntry& entry) {
    if (may_contain(entry, offset.value) &&
        (!nearest || entry.local_header > nearest->local_header))
      nearest = entry;
    return true;
  });
  if (!walked) return fail(walked.error());
  if (!nearest) return std::nullopt;
  const auto inside = contains(*nearest, offset);
  if (inside && *inside) return nearest;

  // The offset is in a header or a gap, or an entry is nested in the data of another entry: check
  // all that may contain it. An entry with an invalid local header does not hide the others.
  std::optional<ArchiveEntry> enclosing;
  (void)for_each([&](const ArchiveEntry& entry) {
    if (may_contain(entry, offset.value) && contains(entry, offset).value_or(false) &&
        (!enclosing || entry.local_header > enclosing->local_header))
      enclosing = entry;
    return true;
  });
  if (enclosing) return enclosing;
  if (!inside) return fail(inside.error());
  return std::nullopt;
}

Result<std::vector<std::byte>> Archive::extract(const ArchiveEntry& entry,
                                                std::uint64_t max_size) const {
  constexpr std::uint16_t stored = 0;
  constexpr std::uint16_t deflated = 8;
  constexpr std::uint64_t max_ratio = 1032; // of DEFLATE: 258 bytes from two bits
  const std::string name = fmt::format("'{}'", entry.name);
  if (entry.encrypted) return fail(ErrorKind::encrypted, name + " is encrypted");
  if (entry.method != stored && entry.method != deflated)
    return fail(ErrorKind::unsupported,
                fmt::format("{} is compressed with {}, which is not supported", name,
                            compression_name(entry.method)));
  const auto start = data_offset(entry);
  if (!start) return fail(start.error());
  const auto data = slice(bytes_, start->value, entry.compressed_size);
  if (!data)
    return fail(ErrorKind::corrupt, fmt::format("{} extends past the end of the file", name));
  // Checked before memory is allocated for the size.
  if (entry.size / max_ratio > data->size() ||
      (entry.method == stored && entry.size != data->size()))
    return fail(ErrorKind::corrupt, fmt::format("{} cannot have {:#x} bytes, only {:#x} are in "
                                                "the archive",
                                                name, entry.size, data->size()));

  std::vector<std::byte> content(std::min(entry.size, max_size));
  if (entry.method == stored) {
    std::ranges::copy(data->first(content.size()), content.begin());
  } else if (!inflate_into(content, *data)) {
    return fail(ErrorKind::corrupt, name + " cannot be inflated: the compressed data is damaged");
  }
  if (content.size() == entry.size && crc32_of(content) != entry.crc32)
    return fail(ErrorKind::corrupt,
                name + " does not have the CRC that the central directory says");
  return content;
}

// APPNOTE 4.4.5.
std::string compression_name(std::uint16_t method) {
  switch (method) {
  case 0:
    return "stored";
  case 1:
    return "shrunk";
  case 6:
    return "imploded";
  case 8:
    return "deflated";
  case 9:
    return "deflate64";
  case 12:
    return "bzip2";
  case 14:
    return "lzma";
  case 93:
    return "zstd";
  case 95:
    return "xz";
  case 98:
    return "ppmd";
  default:
    return fmt::format("method {}", method);
  }
}

Result<Bytes> Archive::stored_bytes(const ArchiveEntry& entry) const {
  const std::string name = fmt::format("'{}'", entry.name);
  if (entry.encrypted)
    return fail(
        Error{ErrorKind::encrypted, fmt::format("{} is encrypted: {}", name, only_stored)}.hint(
            "store it without password and compression: zip -0"));
  if (entry.method != 0)
    return fail(with_storing_hints(
        {ErrorKind::compressed, fmt::format("{} is compressed ({}): {}", name,
                                            compression_name(entry.method), only_stored)},
        entry.name));
  if (entry.size != entry.compressed_size)
    return fail(ErrorKind::corrupt,
                fmt::format("{} is stored, but has {:#x} bytes in the archive and {:#x} extracted",
                            name, entry.compressed_size, entry.size));
  const auto start = data_offset(entry);
  if (!start) return fail(start.error());
  const auto data = slice(bytes_, start->value, entry.compressed_size);
  if (!data)
    return fail(ErrorKind::corrupt, fmt::format("{} extends past the end of the file", name));
  return *data;
}

namespace {

// The first two records with a name.
struct SameName {
  std::optional<DirectoryRecord> first;
  std::optional<DirectoryRecord> second;
  Result<void> end = {}; // of the walk

  // Returns false if there can be no third.
  bool add(const DirectoryRecord& record) {
    (first ? second : first) = record;
    return !second;
  }
};

// The records of a directory by the hashes of their names. The names themselves are not sorted:
// they are in the mapped file, and a sort of values that change meanwhile may leave its range.
class NameOrder {
public:
  NameOrder(Bytes directory, std::uint64_t entry_count) : directory_(directory) {
    DirectoryWalk walk(directory, entry_count);
    while (const auto record = walk.next())
      records_.emplace_back(hash_entry_name(record->name),
                            static_cast<std::uint64_t>(record->fixed.data() - directory.data()));
    end_ = walk.end();
    std::ranges::sort(records_);
  }

  SameName find(std::string_view name) const {
    SameName same{.end = end_};
    const std::uint64_t hash = hash_entry_name(name);
    for (auto at = std::ranges::lower_bound(records_, Record(hash, 0));
         at != records_.end() && at->first == hash; ++at)
      // The file may have changed meanwhile.
      if (const auto record = DirectoryWalk(directory_.subspan(at->second), 1).next();
          record && record->name == name && !same.add(*record))
        break;
    return same;
  }

private:
  using Record = std::pair<std::uint64_t, std::uint64_t>; // hash, offset in the directory

  Bytes directory_;
  std::vector<Record> records_;
  Result<void> end_;
};

// The orders of the archives that were used last. A command may look up each of 100,000 entries,
// and parses the archive again for each.
class KnownOrders {
public:
  // Returns null for small directories, and for the first lookup in one.
  std::shared_ptr<const NameOrder> find(Bytes directory, std::uint64_t entry_count) {
    constexpr std::size_t small = 64 << 10; // a walk takes some 50 us
    if (directory.size() < small) return nullptr;
    const auto mapping = mapping_number(directory);
    if (!mapping) return nullptr;
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find_if(known_, [&](const Known& each) {
      return each.mapping == mapping && each.directory == directory.data() &&
             each.size == directory.size();
    });
    if (known == known_.end()) {
      known_[next_++ % known_.size()] = {*mapping, directory.data(), directory.size(), nullptr};
      return nullptr;
    }
    if (!known->order) known->order = std::make_shared<const NameOrder>(directory, entry_count);
    return known->order;
  }

private:
  struct Known {
    std::optional<std::uint64_t> mapping; // mapping_number()
    const std::byte* directory = nullptr;
    std::size_t size = 0;
    std::shared_ptr<const NameOrder> order; // has a view of the mapping, which is not used later
  };
  std::mutex mutex_;
  std::array<Known, 4> known_;
  std::size_t next_ = 0;
};

SameName find_same(Bytes directory, std::uint64_t entry_count, std::string_view name) {
  static KnownOrders orders;
  if (const auto order = orders.find(directory, entry_count)) return order->find(name);
  SameName same;
  DirectoryWalk walk(directory, entry_count);
  while (const auto record = walk.next())
    if (record->name == name && !same.add(*record)) return same;
  same.end = walk.end();
  return same;
}

} // namespace

Result<std::optional<ArchiveEntry>> Archive::lookup(std::string_view name) const {
  SameName same = find_same(directory_, entry_count_, name);
  if (same.second)
    return fail(ErrorKind::duplicated,
                fmt::format("'{}' occurs more than once, with local headers at {:#x} and {:#x}",
                            name, archive::decode(*same.first, prefix_).local_header,
                            archive::decode(*same.second, prefix_).local_header));
  // A damaged directory may hide a second entry of that name.
  if (!same.end) return fail(std::move(same.end).error());
  if (!same.first) return std::nullopt;
  return archive::decode(*same.first, prefix_);
}

bool Archive::has(std::string_view name) const {
  const auto found = lookup(name);
  return found && *found;
}

Result<ArchiveEntry> Archive::find(std::string_view name) const {
  auto found = lookup(name);
  if (!found) return fail(std::move(found).error());
  if (*found) return **found;

  // Similar names are searched separately, so that a successful lookup is fast.
  NearestNames near;
  DirectoryWalk again(directory_, entry_count_);
  while (const auto record = again.next())
    if (const auto rank = entry_rank(name, record->name)) near.offer(*rank, record->name);
  Error error{ErrorKind::not_found, fmt::format("no entry '{}'", name)};
  const auto names = std::move(near).take();
  return fail(names.empty() ? error : std::move(error).hint(did_you_mean(names)));
}

Result<std::optional<Archive::Duplicate>> Archive::duplicate() const {
  HashSet seen(std::min(directory_.size() / record_fixed_size, max_entries));
  std::size_t searched = 0;
  int collisions = 0;
  DirectoryWalk walk(directory_, entry_count_);
  while (const auto record = walk.next()) {
    if (++searched > max_entries)
      return fail(ErrorKind::unsupported,
                  fmt::format("only its first {} entries were searched for names that occur twice",
                              max_entries));
    if (seen.insert(hash_entry_name(record->name))) continue;
    if (++collisions > max_collisions)
      return fail(ErrorKind::unsupported,
                  fmt::format("only its first {} entries were searched for names that occur twice: "
                              "too many similar names",
                              searched - 1));
    DirectoryWalk again(directory_, entry_count_);
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

} // namespace uprobectl::archive
