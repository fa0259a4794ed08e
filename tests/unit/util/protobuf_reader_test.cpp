// SPDX-License-Identifier: Apache-2.0
// The bytes are those of protobuf.dev/programming-guides/encoding.
#include <catch2/catch.hpp>

#include "util/protobuf_reader.hpp"

using namespace uprobectl;

namespace {

constexpr std::size_t max_fields = 3;

Result<ProtobufField> take_first(std::string_view bytes) {
  ProtobufReader reader(as_bytes(bytes), max_fields);
  std::uint64_t at = 0;
  return reader.take(at, bytes.size());
}

} // namespace

TEST_CASE("fields of a protobuf message have a number, a type and a value") {
  using namespace std::string_view_literals;
  const std::string_view bytes = "\x08\x96\x01\x12\x07testing\x1d\x01\x02\x03\x04"sv;
  ProtobufReader reader(as_bytes(bytes), max_fields);
  std::uint64_t at = 0;
  const auto number = reader.take(at, bytes.size());
  REQUIRE(number);
  CHECK(*number ==
        ProtobufField{.offset = 0, .number = 1, .type = WireType::varint, .begin = 1, .end = 3});
  std::uint64_t begin = number->begin;
  CHECK(reader.take_number(*number, begin) == 150U);
  CHECK(begin == 3);
  const auto text = reader.take(at, bytes.size());
  REQUIRE(text);
  CHECK(text->number == 2);
  CHECK(reader.text(*text) == "testing");
  const auto word = reader.take(at, bytes.size());
  REQUIRE(word);
  CHECK(word->type == WireType::fixed32);
  CHECK(reader.bytes(*word).size() == 4);
  CHECK(at == bytes.size());
  CHECK(reader.take(at, bytes.size()).error().kind == ErrorKind::out_of_range);
}

TEST_CASE("a damaged protobuf field is an error that names the byte") {
  CHECK(take_first("\x12\x08testing").error().message == "byte 0x0: field 2 is truncated");
  CHECK(take_first("\x08\x96").error().message == "byte 0x0: field 1 is truncated");
  CHECK(take_first("\x19\x01").error().message == "byte 0x0: field 3 is truncated");
  CHECK(take_first("\x0b").error().message == "byte 0x0: invalid field tag"); // a group
  CHECK(take_first(std::string_view("\x00\x01", 2)).error().message ==
        "byte 0x0: invalid field tag"); // the number 0
  CHECK(take_first("\x12\xff\xff\xff\xff\xff\x01").error().message ==
        "byte 0x0: field 2 is truncated");
}
