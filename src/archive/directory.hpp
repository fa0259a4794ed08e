// SPDX-License-Identifier: Apache-2.0
// The records of a ZIP archive: the end record, which locates the central directory, the records of
// the central directory, and the local header in front of each entry's data.
#pragma once

#include "uprobectl/archive.hpp"

namespace uprobectl::archive {

// The end record (APPNOTE 4.3.16). The rules for accepting one were compared with Android's
// libziparchive (zip_archive.cc), Info-ZIP and Python's zipfile:
// - A record is accepted only if it points to a directory. A signature inside a comment or inside
//   an entry's data therefore does not hide the real record.
// - The last record whose comment ends the file wins. Bytes after the comment are accepted, as by
//   Info-ZIP (Android rejects them), but only if the archive starts at the start of the file.
//   Otherwise an archive stored inside a truncated one would be mistaken for the outer one.
// - If a comment extends past the end of the file, the archive is truncated: corrupt.
// - If the directory does not end at the end record, bytes were prepended, and all recorded offsets
//   are shifted by that number (Info-ZIP, Python, the JVM). Only if that leads to no directory or
//   entries, the recorded offset is used, with a gap after the directory (Android).
// - An empty directory that leaves bytes unexplained is accepted only if no other record is.

constexpr std::uint32_t end_signature = 0x06054b50;

struct DirectoryLocation {
  std::uint64_t offset = 0; // of the directory in the bytes
  std::uint64_t size = 0;
  std::uint64_t entry_count = 0; // as recorded
  std::uint64_t prefix = 0;      // bytes to add to every recorded offset
};

// Fails with not_archive without an end record, with corrupt if no end record fits the bytes, and
// with unsupported for multi-disk archives and encrypted directories.
Result<DirectoryLocation> locate_directory(Bytes bytes);

// Whether the bytes end with an end record and its comment. Searches the last 64 KiB only.
bool ends_like_archive(Bytes bytes);

// The central directory (APPNOTE 4.3.12).

inline constexpr std::uint32_t directory_signature = 0x02014b50;
inline constexpr std::uint64_t record_fixed_size = 46; // before name, extra field and comment
inline constexpr std::uint16_t saturated16 = 0xffff;   // the value is in a ZIP64 field
inline constexpr std::uint32_t saturated32 = 0xffffffff;

// A view of one record. All parts lie inside the directory.
struct DirectoryRecord {
  Bytes fixed; // the 46 bytes before the name
  std::string_view name;
  Bytes extra;
};

// Iterates over the records without allocating, so that lookups in archives of 70,000 entries are
// fast.
//
// The walk ends with the directory's bytes, not after the number of entries in the end record:
// writers without ZIP64 let that number wrap at 65536, and Info-ZIP and Python ignore it, too. The
// number decides only about bytes that are not a record. After that many records, they are padding
// or a digital signature (APPNOTE 4.3.13); before, the directory is corrupt.
class DirectoryWalk {
public:
  DirectoryWalk(Bytes directory, std::uint64_t entry_count)
      : directory_(directory), entry_count_(entry_count) {}

  // The next record. Returns nullopt at the end, and at bytes that are not a record: call end().
  std::optional<DirectoryRecord> next();

  // Fails with corrupt if the walk stopped before the end of the directory.
  Result<void> end() const;

private:
  Bytes directory_;
  std::uint64_t entry_count_;
  std::uint64_t at_ = 0;
  std::uint64_t visited_ = 0;
};

// Decodes a record. A saturated field whose ZIP64 value is missing stays 0xffffffff. It is checked
// when the entry's bytes are read, so that other entries stay usable.
ArchiveEntry decode(const DirectoryRecord& record, std::uint64_t prefix);

// Inline: most callers do less work per record than a call costs.
inline std::optional<DirectoryRecord> DirectoryWalk::next() {
  const auto fixed = slice(directory_, at_, record_fixed_size);
  if (!fixed || read_at<std::uint32_t>(*fixed, 0) != directory_signature) return std::nullopt;
  // Three half words in a row: the sizes of name, extra field and comment.
  const std::uint64_t sizes = read_at<std::uint64_t>(*fixed, 28).value_or(0);
  const std::uint64_t name_size = sizes & 0xffff;
  const std::uint64_t extra_size = sizes >> 16 & 0xffff;
  const std::uint64_t comment_size = sizes >> 32 & 0xffff;
  const auto variable =
      slice(directory_, at_ + record_fixed_size, name_size + extra_size + comment_size);
  if (!variable) return std::nullopt;
  at_ += record_fixed_size + variable->size();
  ++visited_;
  return DirectoryRecord{*fixed, as_text(variable->first(name_size)),
                         variable->subspan(name_size, extra_size)};
}

// The local header (APPNOTE 4.3.7).

inline constexpr std::uint32_t local_signature = 0x04034b50;
inline constexpr std::uint64_t local_fixed_size = 30;
inline constexpr std::uint64_t max_local_extra_size = 0xffff; // a 16-bit field

// Returns the offset of the entry's data. `limit` is the offset of the central directory, before
// which all data must end. Fails with corrupt, and both values, if the local header contradicts the
// directory. Of the local header only the size of the extra field is used: zipalign pads it.
Result<std::uint64_t> data_start(Bytes bytes, std::uint64_t limit, const ArchiveEntry& entry);

} // namespace uprobectl::archive
