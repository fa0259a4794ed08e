// The local header in front of each entry's data (APPNOTE 4.3.7). Private to the room.
#pragma once

#include "uprobectl/archive.hpp"

namespace uprobectl::archive {

inline constexpr std::uint32_t local_signature = 0x04034b50;
inline constexpr std::uint64_t local_fixed_size = 30;
inline constexpr std::uint64_t local_extra_limit = 0xffff; // its size is a 16-bit field

// Where the entry's data begins; `limit` is where the central directory does, which data never
// reaches. corrupt, with the two facts that disagree, where the local header contradicts the
// directory. The length of the extra field is the one thing taken from here: zipalign pads it.
Result<std::uint64_t> data_start(Bytes bytes, std::uint64_t limit, const ArchiveEntry& entry);

} // namespace uprobectl::archive
