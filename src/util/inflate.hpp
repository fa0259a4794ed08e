// SPDX-License-Identifier: Apache-2.0
// Compression and checksums with zlib, and decompression with a limit on the size.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Fills the output from raw DEFLATE data, as in ZIP archives (APPNOTE 4.4.5). Returns false if the
// data is corrupt or truncated.
bool inflate_into(std::span<std::byte> output, Bytes data);

// Fills the output from zlib data (RFC 1950), as in debug sections. Returns false also if the
// checksum is wrong or the data is longer than the output.
bool inflate_zlib_into(std::span<std::byte> output, Bytes data);

// Decompresses a gzip file of one or more members. unsupported if the result is larger than
// max_size bytes, corrupt if the file is corrupt or truncated.
Result<std::vector<std::byte>> gunzip(Bytes compressed, std::uint64_t max_size);

// The CRC-32 of ZIP, gzip and .gnu_debuglink (RFC 1952, 8).
std::uint32_t crc32_of(Bytes bytes);

// Compresses to a gzip file without name and time (RFC 1952).
Result<std::string> gzip(std::string_view content);

} // namespace uprobectl
