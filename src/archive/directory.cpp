// SPDX-License-Identifier: Apache-2.0
#include "archive/directory.hpp"

#include <fmt/format.h>

namespace uprobectl::archive {

namespace {

constexpr std::uint16_t zip64_tag = 0x0001; // APPNOTE 4.5.3

// The fixed part has been measured before, so the read cannot fail.
template <typename T>
T field(const DirectoryRecord& record, std::uint64_t offset) {
  return read_at<T>(record.fixed, offset).value_or(0);
}

// The body of the ZIP64 extra field, empty if there is none. zipalign pads with zeros that are no
// valid fields (AOSP build/tools/zipalign): whatever does not read as a field ends the search.
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

  // The ZIP64 field holds only what is saturated, in this order (APPNOTE 4.5.3).
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
  // An offset that wraps around lies outside whatever the archive.
  entry.local_header = checked_add(recorded, prefix).value_or(UINT64_MAX);
  return entry;
}

namespace {

// As Android's libziparchive has it (FindEntry in zip_archive.cc): without a data descriptor (bit
// 3, in the local header) both places must give the same sizes. ZIP64 sizes are in an extra field.
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

} // namespace uprobectl::archive
