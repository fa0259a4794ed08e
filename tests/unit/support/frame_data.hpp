// SPDX-License-Identifier: Apache-2.0
// Call frame information for tests: entries of .eh_frame and .debug_frame, written field by field.
#pragma once

#include "unwind/cfi.hpp"

namespace uprobectl::test {

using Numbers = std::vector<unsigned>;

struct FrameBytes {
  std::string bytes;

  FrameBytes& number(unsigned size, std::uint64_t value) {
    for (unsigned i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
    return *this;
  }
  FrameBytes& put(const Numbers& values) {
    for (const unsigned value : values) bytes += static_cast<char>(value);
    return *this;
  }
  FrameBytes& text(std::string_view value) {
    bytes += value;
    bytes += '\0';
    return *this;
  }
  std::uint64_t at() const { return bytes.size(); }

  // A CIE of .eh_frame: version 1, factors 1 and -8, pointers as signed offsets of 4 bytes from
  // where they stand ("zR", 0x1b). Gives where it begins.
  std::uint64_t cie(std::string_view letters, unsigned return_register,
                    const Numbers& instructions) {
    FrameBytes body;
    body.number(4, 0).put({1}).text(letters).put({1, 0x78, return_register, 1, 0x1b});
    return entry(body.put(instructions));
  }
  // An FDE of .eh_frame, which is loaded at the address.
  std::uint64_t fde(std::uint64_t section, std::uint64_t cie_at, std::uint64_t begin,
                    std::uint64_t size, const Numbers& instructions) {
    const std::uint64_t id_at = at() + 4;
    FrameBytes body;
    body.number(4, id_at - cie_at).number(4, begin - (section + id_at + 4)).number(4, size);
    return entry(body.put({0}).put(instructions));
  }
  // Appends the body with its length before it.
  std::uint64_t entry(const FrameBytes& body) {
    const std::uint64_t begin = at();
    number(4, body.bytes.size());
    bytes += body.bytes;
    return begin;
  }

  std::string hex() const {
    std::string text;
    for (const char byte : bytes) {
      constexpr std::string_view digits = "0123456789abcdef";
      text += digits[static_cast<unsigned char>(byte) >> 4];
      text += digits[static_cast<unsigned char>(byte) & 0xf];
    }
    return text;
  }
};

inline unwind::FrameSection eh_frame(const FrameBytes& data, std::uint64_t address) {
  return {unwind::FrameSection::Kind::eh_frame, as_bytes(data.bytes), {address}};
}
inline unwind::FrameSection debug_frame(const FrameBytes& data) {
  return {unwind::FrameSection::Kind::debug_frame, as_bytes(data.bytes), {}};
}

} // namespace uprobectl::test
