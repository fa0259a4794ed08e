// SPDX-License-Identifier: Apache-2.0
// Unsigned LEB128 (DWARF 5, 7.6), which DEX files and protobuf use as well.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// Moves `at`, which is not beyond the end, behind the number. Returns nullopt if the number is cut
// off, has more than max_bytes or does not fit into 64 bits.
inline std::optional<std::uint64_t> take_uleb128(Bytes bytes, std::uint64_t& at,
                                                 unsigned max_bytes = 10) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 7 * max_bytes && at < bytes.size(); shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[at++]);
    const std::uint64_t part = byte & 0x7fU;
    if (shift == 63 && part > 1) break;
    value |= part << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

} // namespace uprobectl
