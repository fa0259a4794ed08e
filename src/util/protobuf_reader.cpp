// SPDX-License-Identifier: Apache-2.0
#include "util/protobuf_reader.hpp"

#include "util/numbers.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

constexpr unsigned max_tag_bytes = 5; // and of lengths, as in protobuf

// Returns nullopt for groups, which protobuf has deprecated, and for invalid types.
std::optional<WireType> wire_type(std::uint64_t bits) {
  for (const WireType type :
       {WireType::varint, WireType::fixed64, WireType::bytes, WireType::fixed32})
    if (static_cast<std::uint64_t>(type) == bits) return type;
  return std::nullopt;
}

std::unexpected<Error> damaged(std::uint64_t at, std::string_view what) {
  return fail(ErrorKind::corrupt, fmt::format("byte {:#x}: {}", at, what));
}

std::unexpected<Error> truncated(const ProtobufField& field) {
  return damaged(field.offset, fmt::format("field {} is truncated", field.number));
}

} // namespace

Result<ProtobufField> ProtobufReader::take(std::uint64_t& at, std::uint64_t end) {
  ProtobufField field{.offset = at};
  if (++fields_ > max_fields_)
    return fail(ErrorKind::out_of_range, fmt::format("there are more than {} fields", max_fields_));
  const auto tag = take_uleb128(file_.first(end), at, max_tag_bytes);
  const auto type = tag ? wire_type(*tag & 7U) : std::nullopt;
  if (!tag || !type || *tag >> 3U == 0 || *tag >> 32U != 0)
    return damaged(field.offset, "invalid field tag");
  field.number = static_cast<std::uint32_t>(*tag >> 3U);
  field.type = *type;
  if (!find_value(field, at, end)) return truncated(field);
  at = field.end;
  return field;
}

bool ProtobufReader::find_value(ProtobufField& field, std::uint64_t at, std::uint64_t end) const {
  std::uint64_t size = 0;
  field.begin = at;
  switch (field.type) {
  case WireType::varint:
    if (!take_uleb128(file_.first(end), at)) return false;
    size = at - field.begin;
    break;
  case WireType::fixed64:
    size = 8;
    break;
  case WireType::fixed32:
    size = 4;
    break;
  case WireType::bytes:
    const auto length = take_uleb128(file_.first(end), at, max_tag_bytes);
    if (!length) return false;
    field.begin = at;
    size = *length;
    break;
  }
  if (size > end - field.begin) return false;
  field.end = field.begin + size;
  return true;
}

Result<std::uint64_t> ProtobufReader::take_number(const ProtobufField& field,
                                                  std::uint64_t& at) const {
  const auto number = take_uleb128(file_.first(field.end), at);
  if (!number) return truncated(field);
  return *number;
}

Bytes ProtobufReader::bytes(const ProtobufField& field) const {
  return file_.subspan(field.begin, field.end - field.begin);
}

} // namespace uprobectl
