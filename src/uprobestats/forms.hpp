// SPDX-License-Identifier: Apache-2.0
// The two forms of a task file, both read by the table of fields (schema.hpp): protobuf's wire
// format (protobuf.dev/programming-guides/encoding) and its text format
// (protobuf.dev/reference/protobuf/textformat-spec).
#pragma once

#include "uprobectl/util.hpp"
#include "uprobestats/schema.hpp"
#include "util/protobuf_reader.hpp"

namespace uprobectl::uprobestats {

// A field that does not fit the schema: its number, its type or its enumeration value is unknown.
struct UnknownField {
  std::string path; // of its message: "tasks 1, probe_configs 2"; empty at the top
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t offset = 0;            // in the file
  bool type_mismatch = false;          // the schema has this number with another type
  std::optional<std::int32_t> value{}; // an unknown value of the enumeration `name`
  std::string_view name = {};
};
std::string to_string(const UnknownField& field); // "tasks 1: field 9 (a number) at byte 0x1c"

struct BinaryForm {
  proto::UprobestatsConfig config;
  std::vector<UnknownField> unknown_fields;
};

// Parses the binary form. Fails with corrupt, naming the byte, if the file is not a valid message,
// and with out_of_range if it has more than max_fields.
Result<BinaryForm> parse_binary_form(Bytes file, Numbering numbering);

// Serializes in the current numbering, byte for byte as protobuf does: fields in the order of their
// numbers, then unknown fields.
std::string write_binary_form(const proto::UprobestatsConfig& config);

struct TextForm {
  proto::UprobestatsConfig config;
  std::vector<std::string> warnings; // about unknown fields
};

// Parses the text form. Fails with corrupt, naming line and column, if the text is malformed.
Result<TextForm> parse_text_form(std::string_view text);

} // namespace uprobectl::uprobestats
