// SPDX-License-Identifier: Apache-2.0
// The central directory, record by record.
//
// The directory's bytes count, not the number of entries in the end record: the walk goes on until
// they are used up. Writers without ZIP64 let the number wrap at 65536, and Info-ZIP and Python
// ignore it too. It matters only where something that is no record follows: if the recorded number
// has been reached by then that is padding or a digital signature (APPNOTE 4.3.13), else corrupt.
#pragma once

#include "uprobectl/archive.hpp"

namespace uprobectl::archive {

inline constexpr std::uint32_t directory_signature = 0x02014b50;
inline constexpr std::uint64_t record_fixed_size = 46; // before name, extra field and comment
inline constexpr std::uint16_t saturated16 = 0xffff;   // the value is in a ZIP64 field
inline constexpr std::uint32_t saturated32 = 0xffffffff;

// One record as it lies there, its parts known to be inside the directory.
struct DirectoryRecord {
  Bytes fixed; // the 46 bytes before the name, APPNOTE 4.3.12
  std::string_view name;
  Bytes extra;
};

// Walks without allocating: what a look-up in an archive of 70,000 entries costs.
class DirectoryWalk {
public:
  DirectoryWalk(Bytes directory, std::uint64_t entry_count)
      : directory_(directory), entry_count_(entry_count) {}

  // The next record; nothing at the end, which end() then judges.
  std::optional<DirectoryRecord> next();

  // corrupt if the walk stopped before the directory's end.
  Result<void> end() const;

private:
  Bytes directory_;
  std::uint64_t entry_count_;
  std::uint64_t at_ = 0;
  std::uint64_t visited_ = 0;
};

// Decodes a record. A saturated field whose ZIP64 value is missing keeps 0xffffffff: whether that
// can be is seen when the entry's bytes are asked for, and the other entries stay usable.
ArchiveEntry decode(const DirectoryRecord& record, std::uint64_t prefix);

// Inline: what is done with a record is mostly less than what a call costs.
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

// The local header in front of each entry's data (APPNOTE 4.3.7).

inline constexpr std::uint32_t local_signature = 0x04034b50;
inline constexpr std::uint64_t local_fixed_size = 30;
inline constexpr std::uint64_t local_extra_limit = 0xffff; // its size is a 16-bit field

// Where the entry's data begins; `limit` is where the central directory does, which data never
// reaches. corrupt, with the two facts that disagree, where the local header contradicts the
// directory. The length of the extra field is the one thing taken from here: zipalign pads it.
Result<std::uint64_t> data_start(Bytes bytes, std::uint64_t limit, const ArchiveEntry& entry);

} // namespace uprobectl::archive
