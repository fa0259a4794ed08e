// SPDX-License-Identifier: Apache-2.0
// zlib's decompression, bounded.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Fills the room from raw DEFLATE data, as ZIP archives hold it (APPNOTE 4.4.5). False if the data
// is damaged or ends too early.
bool inflate_into(std::span<std::byte> room, Bytes data);

// A whole gzip file, of one or more members. unsupported if it becomes larger than max_size,
// corrupt if it is damaged or not whole.
Result<std::vector<std::byte>> gunzip(Bytes compressed, std::uint64_t max_size);

} // namespace uprobectl
