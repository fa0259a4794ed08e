// SPDX-License-Identifier: Apache-2.0
#include "archive/end_record.hpp"

#include "archive/directory.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace uprobectl::archive {

namespace {

constexpr std::uint32_t locator_signature = 0x07064b50; // 4.3.15
constexpr std::uint32_t end64_signature = 0x06064b50;   // 4.3.14
constexpr std::uint64_t end_size = 22;
constexpr std::uint64_t locator_size = 20;
constexpr std::uint64_t end64_size = 56;     // version 1 of the record
constexpr std::uint64_t record_minimum = 46; // a directory record without name
constexpr std::uint64_t comment_limit = 0xffff;

// An end record, ZIP64 values put in.
struct EndRecord {
  std::uint64_t position = 0;
  std::uint64_t directory_end = 0; // the position, or that of the ZIP64 record in front of it
  std::uint64_t entry_count = 0;
  std::uint64_t size = 0;   // of the directory
  std::uint64_t offset = 0; // of the directory, as recorded
  bool ends_file = false;   // nothing follows the comment
};

std::unexpected<Error> several_disks() {
  return fail(ErrorKind::unsupported, "archives split over several disks are not supported");
}

// The ZIP64 end record that the locator in front of an end record points to. Data may have been
// prepended since, then it is where a record of the usual size would end at the locator.
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

Result<EndRecord> widen(Bytes bytes, EndRecord end, bool saturated) {
  if (end.position < locator_size) return end;
  const std::uint64_t locator = end.position - locator_size;
  if (read_at<std::uint32_t>(bytes, locator) != locator_signature) return end;
  const auto at = find_end64(bytes, locator);
  if (!at && !saturated) return end; // bytes that only look like a locator
  if (!at)
    return fail(ErrorKind::corrupt,
                fmt::format("the ZIP64 locator at {:#x} points to {:#x}, where no ZIP64 record is",
                            locator, read_at<std::uint64_t>(bytes, locator + 8).value_or(0)));
  end.directory_end = *at;
  if (!saturated) return end;

  if (read_at<std::uint32_t>(bytes, *at + 16) != 0u ||
      read_at<std::uint32_t>(bytes, *at + 20) != 0u)
    return several_disks();
  // Version 2 of the record (7.3.4) says how an encrypted directory was encrypted.
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
    return fail(ErrorKind::corrupt, fmt::format("the archive comment has {} bytes, but {} are left "
                                                "in the file: cut short",
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
  return widen(bytes, end, saturated);
}

bool directory_is_at(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
  return slice(bytes, offset, size) && read_at<std::uint32_t>(bytes, offset) == directory_signature;
}

// Whether the directory's first entry has its local header where this placing puts it.
bool first_entry_fits(Bytes bytes, std::uint64_t offset, std::uint64_t size, std::uint64_t prefix) {
  const auto directory = slice(bytes, offset, size);
  if (!directory) return false;
  const auto record = DirectoryWalk(*directory, 1).next();
  if (!record) return false;
  return read_at<std::uint32_t>(bytes, decode(*record, prefix).local_header) == local_signature;
}

// Where the directory of this record is; corrupt if it is nowhere.
Result<DirectoryLocation> place(Bytes bytes, const EndRecord& end) {
  const auto recorded_end = checked_add(end.offset, end.size);
  if (!recorded_end || *recorded_end > end.directory_end)
    return fail(ErrorKind::corrupt,
                fmt::format("{:#x} bytes of central directory at {:#x} run past its end record at "
                            "{:#x}",
                            end.size, end.offset, end.directory_end));
  if (checked_mul(end.entry_count, record_minimum).value_or(UINT64_MAX) > end.size)
    return fail(ErrorKind::corrupt, fmt::format("{} entries cannot be in {:#x} bytes of central "
                                                "directory",
                                                end.entry_count, end.size));
  const std::uint64_t gap = end.directory_end - *recorded_end;
  const DirectoryLocation exact{end.offset, end.size, end.entry_count, 0};
  const DirectoryLocation shifted{end.offset + gap, end.size, end.entry_count, gap};
  if (end.size == 0) return exact;

  const bool exact_is = directory_is_at(bytes, exact.offset, end.size);
  const bool shifted_is = directory_is_at(bytes, shifted.offset, end.size);
  if (!exact_is && !shifted_is)
    return fail(ErrorKind::corrupt,
                fmt::format("no central directory at {:#x}, where the end record at {:#x} says",
                            end.offset, end.position));
  // Both only by chance or design; then the entries decide, and last the end record's neighbour.
  if (shifted_is && first_entry_fits(bytes, shifted.offset, end.size, gap)) return shifted;
  if (exact_is && first_entry_fits(bytes, exact.offset, end.size, 0)) return exact;
  return shifted_is ? shifted : exact;
}

// The offsets that can hold an end record: [first, last], nothing if the bytes are too few.
struct Window {
  std::uint64_t first;
  std::uint64_t last;
};

std::optional<Window> search_window(Bytes bytes) {
  if (bytes.size() < end_size) return std::nullopt;
  const std::uint64_t last = bytes.size() - end_size;
  return Window{last - std::min(last, comment_limit), last};
}

// The last end record's signature at first or behind it, and before limit. Every file that is
// opened is asked, so this must not look at each byte by itself.
std::optional<std::uint64_t> last_signature(Bytes bytes, std::uint64_t first, std::uint64_t limit) {
  while (limit > first) {
    const void* const found = ::memrchr(bytes.data() + first, end_signature & 0xff, limit - first);
    if (found == nullptr) return std::nullopt;
    limit = static_cast<std::uint64_t>(static_cast<const std::byte*>(found) - bytes.data());
    if (read_at<std::uint32_t>(bytes, limit) == end_signature) return limit;
  }
  return std::nullopt;
}

std::unexpected<Error> no_archive(Bytes bytes) {
  if (bytes.empty()) return fail(ErrorKind::not_archive, "not a ZIP archive: the file is empty");
  if (read_at<std::uint32_t>(bytes, 0) == local_signature)
    return fail(ErrorKind::not_archive,
                "no end-of-central-directory record: the ZIP archive is cut short");
  return fail(ErrorKind::not_archive, "not a ZIP archive: no end-of-central-directory record");
}

} // namespace

Result<DirectoryLocation> locate_directory(Bytes bytes) {
  const auto window = search_window(bytes);
  if (!window) return no_archive(bytes);
  std::optional<DirectoryLocation> fallback;
  std::optional<Error> complaint; // about the last record
  std::uint64_t limit = window->last + 1;
  while (const auto found = last_signature(bytes, window->first, limit)) {
    const std::uint64_t position = limit = *found;
    const auto end = read_end_record(bytes, position);
    const auto location = end ? place(bytes, *end) : Result<DirectoryLocation>(fail(end.error()));
    if (!location) {
      if (!complaint) complaint = location.error();
      continue;
    }
    const bool explained = location->size != 0 || location->offset == end->directory_end;
    if (end->ends_file && explained) return *location;
    const bool acceptable = end->ends_file || (explained && location->prefix == 0);
    if (acceptable && !fallback) fallback = *location;
    if (!acceptable && !complaint)
      complaint = Error{ErrorKind::corrupt, fmt::format("bytes follow the end record at {:#x}, and "
                                                        "its offsets are not from the file's start",
                                                        position)};
  }
  if (fallback) return *fallback;
  if (complaint) return fail(std::move(*complaint));
  return no_archive(bytes);
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
