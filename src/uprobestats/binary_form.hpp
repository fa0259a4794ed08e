// SPDX-License-Identifier: Apache-2.0
// The binary form of a task file: protobuf's wire format, read and written by the table of fields.
// Source: protobuf.dev/programming-guides/encoding.
#pragma once

#include "uprobectl/util.hpp"
#include "uprobestats/schema.hpp"

namespace uprobectl::uprobestats {

enum class WireType : std::uint8_t {
  varint = 0,
  fixed64 = 1,
  bytes = 2,
  fixed32 = 5,
};

// A field that the schema does not have, or has with another type or without this value.
struct OddField {
  std::string place; // "tasks 1, probe_configs 2"; empty at the top
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t offset = 0;            // in the file
  bool known = false;                  // the number is known, with another type
  std::optional<std::int32_t> value{}; // unknown to the enumeration `name`
  std::string_view name = {};
};
std::string to_string(const OddField& field); // "tasks 1: field 9 (a number) at byte 0x1c"

struct BinaryForm {
  proto::UprobestatsConfig config;
  std::vector<OddField> odd;
};

// corrupt with the byte if the file is not a message, out_of_range if it has more than max_fields.
Result<BinaryForm> parse_binary_form(Bytes file, Numbering numbering);

// In the current numbering, byte for byte as protobuf writes it: fields by number, then unknown
// ones.
std::string write_binary_form(const proto::UprobestatsConfig& config);

} // namespace uprobectl::uprobestats
