// SPDX-License-Identifier: Apache-2.0
// Writes messages in the wire format of Protocol Buffers
// (https://protobuf.dev/programming-guides/encoding/).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace uprobectl::output {

// Appends the fields of a message to a text, which it borrows.
class ProtobufWriter {
public:
  explicit ProtobufWriter(std::string& out) : out_(out) {}

  // uint32, uint64, int64 that is not negative, bool, enum
  void number(std::uint32_t field, std::uint64_t value) {
    tag(field, varint_type);
    append_varint(out_, value);
  }
  // int32, int64: negative numbers take ten bytes
  void signed_number(std::uint32_t field, std::int64_t value) {
    number(field, static_cast<std::uint64_t>(value));
  }
  void real(std::uint32_t field, double value) {
    tag(field, fixed64_type);
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (unsigned shift = 0; shift < 64; shift += 8) out_ += static_cast<char>(bits >> shift);
  }
  // string, bytes; the caller provides valid UTF-8 for a string.
  void text(std::uint32_t field, std::string_view value) {
    tag(field, length_type);
    append_varint(out_, value.size());
    out_ += value;
  }
  // A nested message: its fields are written between begin() and end(), which takes the result of
  // begin().
  std::size_t begin(std::uint32_t field) {
    tag(field, length_type);
    out_ += '\0'; // end() replaces it by the length
    return out_.size();
  }
  void end(std::size_t begin) {
    std::string length;
    append_varint(length, out_.size() - begin);
    out_.replace(begin - 1, 1, length);
  }

  static void append_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) out += static_cast<char>(value | 0x80U);
    out += static_cast<char>(value);
  }

private:
  static constexpr std::uint32_t varint_type = 0;
  static constexpr std::uint32_t fixed64_type = 1;
  static constexpr std::uint32_t length_type = 2;

  void tag(std::uint32_t field, std::uint32_t type) { append_varint(out_, field << 3U | type); }

  std::string& out_;
};

} // namespace uprobectl::output
