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

} // namespace uprobectl::archive
