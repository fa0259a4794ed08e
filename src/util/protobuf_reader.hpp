// SPDX-License-Identifier: Apache-2.0
// Reads messages in the wire format of Protocol Buffers
// (https://protobuf.dev/programming-guides/encoding/), field by field.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

enum class WireType : std::uint8_t {
  varint = 0,
  fixed64 = 1,
  bytes = 2,
  fixed32 = 5,
};

// The location of a field in the file.
struct ProtobufField {
  std::uint64_t offset = 0;
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t begin = 0; // of the value, after its length
  std::uint64_t end = 0;

  bool operator==(const ProtobufField&) const = default;
};

// A view: the bytes must outlive it and the texts that it returns.
class ProtobufReader {
public:
  // max_fields: of all messages together. More are an error.
  ProtobufReader(Bytes file, std::size_t max_fields) : file_(file), max_fields_(max_fields) {}

  // Reads the field at `at` in a message that ends at `end`, at most the size of the file, and
  // moves `at` past it. Fails with corrupt, naming the byte, and with out_of_range.
  Result<ProtobufField> take(std::uint64_t& at, std::uint64_t end);

  // Reads a number and moves `at` past it: of a varint, or the next one of packed numbers. Fails
  // with corrupt if it does not end with the field.
  Result<std::uint64_t> take_number(const ProtobufField& field, std::uint64_t& at) const;

  // The bytes of the value, after their length.
  Bytes bytes(const ProtobufField& field) const;
  std::string_view text(const ProtobufField& field) const { return as_text(bytes(field)); }

private:
  bool find_value(ProtobufField& field, std::uint64_t at, std::uint64_t end) const;

  Bytes file_;
  std::size_t max_fields_;
  std::size_t fields_ = 0;
};

} // namespace uprobectl
