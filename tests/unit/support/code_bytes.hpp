// SPDX-License-Identifier: Apache-2.0
// Machine instructions as tests write them down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace uprobectl {

inline std::vector<std::byte> code(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// A64 instructions are little-endian words whatever the data are.
inline std::vector<std::byte> words(std::initializer_list<std::uint32_t> values) {
  std::vector<std::byte> bytes;
  for (const std::uint32_t value : values)
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<std::byte>(value >> shift));
  return bytes;
}

} // namespace uprobectl
