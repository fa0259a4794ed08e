// Unsigned LEB128 numbers of at most 32 bits, one after another, as DEX files have them.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl::art {

class Leb128 {
public:
  Leb128() = default; // nothing to read
  Leb128(Bytes bytes, std::uint64_t position) : bytes_(bytes), position_(position) {}

  // Nothing at the end, and for a number of more than five bytes.
  std::optional<std::uint32_t> next() {
    constexpr unsigned most_bits = 35;
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < most_bits; shift += 7) {
      if (position_ >= bytes_.size()) return std::nullopt;
      const auto byte = std::to_integer<std::uint32_t>(bytes_[position_++]);
      value |= (byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::uint64_t position() const { return position_; }

private:
  Bytes bytes_;
  std::uint64_t position_ = 0;
};

} // namespace uprobectl::art
