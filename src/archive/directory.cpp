// SPDX-License-Identifier: Apache-2.0
#include "archive/directory.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace uprobectl::archive {

namespace {

constexpr std::uint16_t zip64_tag = 0x0001; // APPNOTE 4.5.3

// A field of the fixed part, whose size DirectoryWalk has checked.
template <typename T>
T field(const DirectoryRecord& record, std::uint64_t offset) {
  return read_at<T>(record.fixed, offset).value_or(0);
}

// The body of the ZIP64 extra field; empty without one. The search ends at the first invalid field,
// because zipalign pads with zeros (AOSP build/tools/zipalign).
Bytes zip64_field(Bytes extra) {
  for (std::uint64_t at = 0; at < extra.size();) {
    const auto tag = read_at<std::uint16_t>(extra, at);
    const auto size = read_at<std::uint16_t>(extra, at + 2);
    if (!tag || !size) return {};
    const auto body = slice(extra, at + 4, *size);
    if (!body) return {};
    if (*tag == zip64_tag) return *body;
    at += 4 + *size;
  }
  return {};
}

} // namespace

Result<void> DirectoryWalk::end() const {
  if (at_ == directory_.size() || visited_ >= entry_count_) return {};
  return fail(ErrorKind::corrupt,
              fmt::format("central directory malformed at {:#x} of its {:#x} bytes, after {} of {} "
                          "entries",
                          at_, directory_.size(), visited_, entry_count_));
}

ArchiveEntry decode(const DirectoryRecord& record, std::uint64_t prefix) {
  ArchiveEntry entry;
  entry.name = record.name;
  entry.encrypted = (field<std::uint16_t>(record, 8) & 1) != 0;
  entry.method = field<std::uint16_t>(record, 10);
  entry.crc32 = field<std::uint32_t>(record, 16);
  entry.compressed_size = field<std::uint32_t>(record, 20);
  entry.size = field<std::uint32_t>(record, 24);
  std::uint64_t recorded = field<std::uint32_t>(record, 42);

  // The ZIP64 field holds only the saturated values, in this order (APPNOTE 4.5.3).
  if (entry.size == saturated32 || entry.compressed_size == saturated32 ||
      recorded == saturated32) {
    const Bytes wide = zip64_field(record.extra);
    std::uint64_t at = 0;
    for (std::uint64_t* value : {&entry.size, &entry.compressed_size, &recorded}) {
      if (*value != saturated32) continue;
      const auto full = read_at<std::uint64_t>(wide, at);
      if (!full) break;
      *value = *full;
      at += sizeof(std::uint64_t);
    }
  }
  // UINT64_MAX, for an offset that overflows, lies outside any archive.
  entry.local_header = checked_add(recorded, prefix).value_or(UINT64_MAX);
  return entry;
}

namespace {

// Without a data descriptor (bit 3 of the local header's flags), the local header and the directory
// must have the same sizes, as in Android's libziparchive (FindEntry in zip_archive.cc). ZIP64
// sizes are in an extra field.
std::optional<Error> size_conflict(Bytes fixed, const ArchiveEntry& entry) {
  const auto flags = read_at<std::uint16_t>(fixed, 6).value_or(0);
  if ((flags & 0x8) != 0) return std::nullopt;
  const auto compressed_size = read_at<std::uint32_t>(fixed, 18).value_or(0);
  const auto size = read_at<std::uint32_t>(fixed, 22).value_or(0);
  const auto agree = [](std::uint32_t local, std::uint64_t directory) {
    return local == directory || local == saturated32;
  };
  if (!agree(compressed_size, entry.compressed_size))
    return Error{
        ErrorKind::corrupt,
        fmt::format("'{}': the local header at {:#x} says {:#x} bytes of data, the central "
                    "directory {:#x}",
                    entry.name, entry.local_header, compressed_size, entry.compressed_size)};
  if (!agree(size, entry.size))
    return Error{ErrorKind::corrupt,
                 fmt::format("'{}': the local header at {:#x} says {:#x} bytes uncompressed, the "
                             "central directory {:#x}",
                             entry.name, entry.local_header, size, entry.size)};
  return std::nullopt;
}

} // namespace

Result<std::uint64_t> data_start(Bytes bytes, std::uint64_t limit, const ArchiveEntry& entry) {
  const auto fixed = slice(bytes, entry.local_header, local_fixed_size);
  if (!fixed || entry.local_header >= limit)
    return fail(
        ErrorKind::corrupt,
        fmt::format(
            "'{}': its local header at {:#x} is not in front of the central directory at {:#x}",
            entry.name, entry.local_header, limit));
  if (read_at<std::uint32_t>(*fixed, 0) != local_signature)
    return fail(ErrorKind::corrupt, fmt::format("'{}': no local header at {:#x}, where the central "
                                                "directory says it is",
                                                entry.name, entry.local_header));

  const std::uint64_t name_size = read_at<std::uint16_t>(*fixed, 26).value_or(0);
  const std::uint64_t extra_size = read_at<std::uint16_t>(*fixed, 28).value_or(0);
  const auto name = slice(bytes, entry.local_header + local_fixed_size, name_size);
  if (!name || as_text(*name) != entry.name)
    return fail(
        ErrorKind::corrupt,
        fmt::format("'{}': the local header at {:#x} names {}", entry.name, entry.local_header,
                    name ? fmt::format("'{}'", as_text(*name)) : "bytes past the end of the file"));
  if (auto conflict = size_conflict(*fixed, entry)) return fail(std::move(*conflict));

  const std::uint64_t start = entry.local_header + local_fixed_size + name_size + extra_size;
  if (start > limit || entry.compressed_size > limit - start)
    return fail(
        ErrorKind::corrupt,
        fmt::format("'{}': {:#x} bytes of data at {:#x} run into the central directory at {:#x}",
                    entry.name, entry.compressed_size, start, limit));
  return start;
}

namespace {

constexpr std::uint32_t locator_signature = 0x07064b50; // 4.3.15
constexpr std::uint32_t end64_signature = 0x06064b50;   // 4.3.14
constexpr std::uint64_t end_size = 22;
constexpr std::uint64_t locator_size = 20;
constexpr std::uint64_t end64_size = 56; // version 1 of the record
constexpr std::uint64_t max_comment_size = 0xffff;

// An end record, with the values of its ZIP64 record if it has one.
struct EndRecord {
  std::uint64_t position = 0;
  std::uint64_t directory_end = 0; // the position of this record, or of its ZIP64 record
  std::uint64_t entry_count = 0;
  std::uint64_t size = 0;   // of the directory
  std::uint64_t offset = 0; // of the directory, as recorded
  bool ends_file = false;   // nothing follows the comment
};

std::unexpected<Error> several_disks() {
  return fail(ErrorKind::unsupported, "archives split over several disks are not supported");
}

// Returns the offset of the ZIP64 end record. The locator, in front of the end record, points to
// it. If data was prepended to the archive, that offset is wrong: then a record of the usual size
// is expected directly in front of the locator.
std::optional<std::uint64_t> find_end64(Bytes bytes, std::uint64_t locator) {
  const auto recorded = read_at<std::uint64_t>(bytes, locator + 8);
  if (!recorded) return std::nullopt;
  const std::uint64_t adjacent = locator >= end64_size ? locator - end64_size : UINT64_MAX;
  for (const std::uint64_t at : {*recorded, adjacent}) {
    const auto fits = checked_add(at, end64_size);
    if (fits && *fits <= locator && read_at<std::uint32_t>(bytes, at) == end64_signature) return at;
  }
  return std::nullopt;
}

// Replaces saturated values by those of the ZIP64 end record.
Result<EndRecord> apply_zip64(Bytes bytes, EndRecord end, bool saturated) {
  if (end.position < locator_size) return end;
  const std::uint64_t locator = end.position - locator_size;
  if (read_at<std::uint32_t>(bytes, locator) != locator_signature) return end;
  const auto at = find_end64(bytes, locator);
  if (!at && !saturated) return end; // bytes that only look like a locator
  if (!at)
    return fail(
        ErrorKind::corrupt,
        fmt::format("the ZIP64 locator at {:#x} points to {:#x}, but no ZIP64 record is there",
                    locator, read_at<std::uint64_t>(bytes, locator + 8).value_or(0)));
  end.directory_end = *at;
  if (!saturated) return end;

  if (read_at<std::uint32_t>(bytes, *at + 16) != 0u ||
      read_at<std::uint32_t>(bytes, *at + 20) != 0u)
    return several_disks();
  // Version 2 of the record (7.3.4) has the algorithm of an encrypted directory.
  const auto algorithm = read_at<std::uint16_t>(bytes, *at + 74);
  if (*at + 76 <= locator && algorithm.value_or(0) != 0)
    return fail(ErrorKind::unsupported, "the central directory is encrypted");
  if (end.entry_count == saturated16)
    end.entry_count = read_at<std::uint64_t>(bytes, *at + 32).value_or(0);
  if (end.size == saturated32) end.size = read_at<std::uint64_t>(bytes, *at + 40).value_or(0);
  if (end.offset == saturated32) end.offset = read_at<std::uint64_t>(bytes, *at + 48).value_or(0);
  return end;
}

Result<EndRecord> read_end_record(Bytes bytes, std::uint64_t position) {
  const Bytes record = bytes.subspan(position, end_size);
  const auto u16 = [&](std::uint64_t at) { return read_at<std::uint16_t>(record, at).value_or(0); };
  const auto u32 = [&](std::uint64_t at) { return read_at<std::uint32_t>(record, at).value_or(0); };

  const std::uint64_t after = bytes.size() - position - end_size;
  if (u16(20) > after)
    return fail(ErrorKind::corrupt, fmt::format("the archive comment has {} bytes, but only {} "
                                                "follow: the file is truncated",
                                                u16(20), after));
  EndRecord end;
  end.position = position;
  end.directory_end = position;
  end.entry_count = u16(10);
  end.size = u32(12);
  end.offset = u32(16);
  end.ends_file = u16(20) == after;
  for (const std::uint64_t disk : {4, 6})
    if (u16(disk) != 0 && u16(disk) != saturated16) return several_disks();
  const bool saturated = u16(4) == saturated16 || u16(6) == saturated16 ||
                         end.entry_count == saturated16 || end.size == saturated32 ||
                         end.offset == saturated32;
  return apply_zip64(bytes, end, saturated);
}

bool has_directory_at(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
  return slice(bytes, offset, size) && read_at<std::uint32_t>(bytes, offset) == directory_signature;
}

// Whether the first entry of a directory at this offset has a local header, given the prefix.
bool first_entry_fits(Bytes bytes, std::uint64_t offset, std::uint64_t size, std::uint64_t prefix) {
  const auto directory = slice(bytes, offset, size);
  if (!directory) return false;
  const auto record = DirectoryWalk(*directory, 1).next();
  if (!record) return false;
  return read_at<std::uint32_t>(bytes, decode(*record, prefix).local_header) == local_signature;
}

// Locates the directory of an end record. Fails with corrupt if there is none.
Result<DirectoryLocation> locate_from(Bytes bytes, const EndRecord& end) {
  const auto recorded_end = checked_add(end.offset, end.size);
  if (!recorded_end || *recorded_end > end.directory_end)
    return fail(ErrorKind::corrupt,
                fmt::format("{:#x} bytes of central directory at {:#x} run past its end record at "
                            "{:#x}",
                            end.size, end.offset, end.directory_end));
  if (checked_mul(end.entry_count, record_fixed_size).value_or(UINT64_MAX) > end.size)
    return fail(ErrorKind::corrupt, fmt::format("{} entries cannot be in {:#x} bytes of central "
                                                "directory",
                                                end.entry_count, end.size));
  const std::uint64_t gap = end.directory_end - *recorded_end;
  const DirectoryLocation exact{end.offset, end.size, end.entry_count, 0};
  const DirectoryLocation shifted{end.offset + gap, end.size, end.entry_count, gap};
  if (end.size == 0) return exact;

  const bool at_exact = has_directory_at(bytes, exact.offset, end.size);
  const bool at_shifted = has_directory_at(bytes, shifted.offset, end.size);
  if (!at_exact && !at_shifted)
    return fail(ErrorKind::corrupt,
                fmt::format("no central directory at {:#x}, where the end record at {:#x} points",
                            end.offset, end.position));
  // Both can have one by chance or by intent. The first entry decides; if it does not, the
  // directory next to the end record is used.
  if (at_shifted && first_entry_fits(bytes, shifted.offset, end.size, gap)) return shifted;
  if (at_exact && first_entry_fits(bytes, exact.offset, end.size, 0)) return exact;
  return at_shifted ? shifted : exact;
}

// The range of offsets where an end record can begin, both included.
struct SearchWindow {
  std::uint64_t first;
  std::uint64_t last;
};

// Returns nullopt if the bytes are too few for an end record.
std::optional<SearchWindow> search_window(Bytes bytes) {
  if (bytes.size() < end_size) return std::nullopt;
  const std::uint64_t last = bytes.size() - end_size;
  return SearchWindow{last - std::min(last, max_comment_size), last};
}

// Returns the last offset in [first, limit) with the signature of an end record. Uses memrchr(),
// because this search runs for every opened file.
std::optional<std::uint64_t> last_signature(Bytes bytes, std::uint64_t first, std::uint64_t limit) {
  while (limit > first) {
    const void* const found = ::memrchr(bytes.data() + first, end_signature & 0xff, limit - first);
    if (found == nullptr) return std::nullopt;
    limit = static_cast<std::uint64_t>(static_cast<const std::byte*>(found) - bytes.data());
    if (read_at<std::uint32_t>(bytes, limit) == end_signature) return limit;
  }
  return std::nullopt;
}

std::unexpected<Error> not_an_archive(Bytes bytes) {
  if (bytes.empty()) return fail(ErrorKind::not_archive, "not a ZIP archive: the file is empty");
  if (read_at<std::uint32_t>(bytes, 0) == local_signature)
    return fail(ErrorKind::not_archive,
                "no end-of-central-directory record: the ZIP archive is truncated");
  return fail(ErrorKind::not_archive, "not a ZIP archive: no end-of-central-directory record");
}

} // namespace

Result<DirectoryLocation> locate_directory(Bytes bytes) {
  const auto window = search_window(bytes);
  if (!window) return not_an_archive(bytes);
  std::optional<DirectoryLocation> fallback;
  std::optional<Error> last_error; // of the last end record in the file
  std::uint64_t limit = window->last + 1;
  while (const auto found = last_signature(bytes, window->first, limit)) {
    const std::uint64_t position = limit = *found;
    const auto end = read_end_record(bytes, position);
    const auto location =
        end ? locate_from(bytes, *end) : Result<DirectoryLocation>(fail(end.error()));
    if (!location) {
      if (!last_error) last_error = location.error();
      continue;
    }
    const bool explained = location->size != 0 || location->offset == end->directory_end;
    if (end->ends_file && explained) return *location;
    const bool acceptable = end->ends_file || (explained && location->prefix == 0);
    if (acceptable && !fallback) fallback = *location;
    if (!acceptable && !last_error)
      last_error =
          Error{ErrorKind::corrupt, fmt::format("bytes follow the end record at {:#x}, and "
                                                "the archive does not begin at offset 0",
                                                position)};
  }
  if (fallback) return *fallback;
  if (last_error) return fail(std::move(*last_error));
  return not_an_archive(bytes);
}

bool ends_like_archive(Bytes bytes) {
  const auto window = search_window(bytes);
  if (!window) return false;
  std::uint64_t limit = window->last + 1;
  while (const auto found = last_signature(bytes, window->first, limit)) {
    limit = *found;
    if (read_at<std::uint16_t>(bytes, limit + 20) == window->last - limit) return true;
  }
  return false;
}

} // namespace uprobectl::archive
