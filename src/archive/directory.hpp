// The central directory, record by record. Private to the room.
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

} // namespace uprobectl::archive
