// Protobuf's wire format, as far as it is written and looked through by hand: everything else does
// the library. Source: protobuf.dev/programming-guides/encoding.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl::uprobestats {

enum class WireType : std::uint8_t {
  varint = 0,
  fixed64 = 1,
  bytes = 2,
  fixed32 = 5,
};

inline void append_varint(std::string& wire, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) wire += static_cast<char>(0x80U | (value & 0x7fU));
  wire += static_cast<char>(value);
}

inline void append_tag(std::string& wire, std::uint32_t number, WireType type) {
  append_varint(wire, std::uint64_t{number} << 3U | static_cast<std::uint64_t>(type));
}

inline void append_bytes(std::string& wire, std::uint32_t number, std::string_view bytes) {
  append_tag(wire, number, WireType::bytes);
  append_varint(wire, bytes.size());
  wire += bytes;
}

} // namespace uprobectl::uprobestats
