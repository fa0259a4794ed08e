// SPDX-License-Identifier: Apache-2.0
// Values of variables and map entries, as text. Expected bytes are those of C on a little-endian
// machine.
#include "bpf/object_values.hpp"

#include <bpf/btf.h>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

namespace uprobectl::bpf {

namespace {

// Types as clang would write them: struct pair { u32 id; char name[4]; struct { s16 low; }; u32 a :
// 3, b : 5; }.
class Types {
public:
  Types() : types_(btf__new_empty(), btf__free) {
    u32 = id(btf__add_int(get(), "u32", 4, 0));
    s16 = id(btf__add_int(get(), "s16", 2, BTF_INT_SIGNED));
    wide = id(btf__add_int(get(), "wide", 16, 0));
    text = array(id(btf__add_int(get(), "char", 1, BTF_INT_SIGNED)), 4);
    bytes = array(id(btf__add_int(get(), "unsigned char", 1, 0)), 6);
    signed_bytes = array(id(btf__add_int(get(), "signed char", 1, BTF_INT_SIGNED)), 2);
    flags = array(id(btf__add_int(get(), "_Bool", 1, BTF_INT_BOOL)), 2);
    numbers = array(u32, 3);
    const std::uint32_t inner = id(btf__add_struct(get(), "", 2));
    field("low", s16, 0);
    pair = id(btf__add_struct(get(), "pair", 16));
    field("id", u32, 0);
    field("name", text, 32);
    field("", inner, 64);
    field("a", u32, 96, 3);
    field("b", u32, 99, 5);
    color = id(btf__add_enum(get(), "color", 4));
    REQUIRE(btf__add_enum_value(get(), "RED", 0) == 0);
    REQUIRE(btf__add_enum_value(get(), "BLUE", -3) == 0);
    address = id(btf__add_struct(get(), "address", 6));
    field("mac", bytes, 0);
  }
  // A structure whose anonymous members contain the next one twice, so many levels deep.
  std::uint32_t add_doubled(int levels) {
    std::uint32_t inner = id(btf__add_struct(get(), "", 4));
    field("last", u32, 0);
    for (int i = 0; i < levels; ++i) {
      const std::uint32_t outer = id(btf__add_union(get(), "", 4));
      field("", inner, 0);
      field("", inner, 0);
      inner = outer;
    }
    return inner;
  }
  const btf* get() const { return types_.get(); }

  std::uint32_t u32 = 0, s16 = 0, wide = 0, text = 0, numbers = 0, pair = 0, color = 0;
  std::uint32_t bytes = 0, signed_bytes = 0, flags = 0, address = 0;

private:
  static std::uint32_t id(int made) {
    REQUIRE(made > 0);
    return static_cast<std::uint32_t>(made);
  }
  std::uint32_t array(std::uint32_t element, std::uint32_t count) {
    return id(btf__add_array(get(), static_cast<int>(element), static_cast<int>(element), count));
  }
  void field(const char* name, std::uint32_t type, std::uint32_t bit, std::uint32_t bits = 0) {
    REQUIRE(btf__add_field(get(), name, static_cast<int>(type), bit, bits) == 0);
  }
  btf* get() { return types_.get(); }

  std::unique_ptr<btf, decltype(&btf__free)> types_;
};

// The bytes that a text is, in hexadecimal, or the message of the error.
std::string bytes_of(const Types& types, std::uint32_t type, std::string_view text) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(btf__resolve_size(types.get(), type)));
  const auto written = write_value(types.get(), {.type = type, .size = bytes.size()}, text, bytes);
  if (!written) return written.error().message;
  std::string shown;
  constexpr std::string_view digits = "0123456789abcdef";
  for (const std::byte each : bytes) {
    shown += digits[std::to_integer<unsigned>(each >> 4U)];
    shown += digits[std::to_integer<unsigned>(each & std::byte{15})];
  }
  return shown;
}

} // namespace

TEST_CASE("a value is written by its BTF type") {
  const Types types;
  CHECK(bytes_of(types, types.u32, "0x12345678") == "78563412");
  CHECK(bytes_of(types, types.s16, "-2") == "feff");
  CHECK(bytes_of(types, types.wide, "0x0102030405060708090a0b0c0d0e0f10") ==
        "100f0e0d0c0b0a090807060504030201");
  CHECK(bytes_of(types, types.wide, "340282366920938463463374607431768211455") ==
        "ffffffffffffffffffffffffffffffff");
  CHECK(bytes_of(types, types.text, "abc") == "61626300");
  CHECK(bytes_of(types, types.numbers, "1,2") == "010000000200000000000000");
  CHECK(bytes_of(types, types.color, "BLUE") == "fdffffff");
  CHECK(bytes_of(types, types.color, "-3") == "fdffffff");
}

TEST_CASE("members are written by name, in their order, and as bit fields") {
  const Types types;
  CHECK(bytes_of(types, types.pair, "{id=1,name=ab,b=31}") == "010000006162000000000000f8000000");
  CHECK(bytes_of(types, types.pair, ".a=5,.low=-1") == "0000000000000000ffff000005000000");
  CHECK(bytes_of(types, types.pair, "{2,ab}") == "02000000616200000000000000000000");
}

TEST_CASE("an array of bytes is a list, hexadecimal digits, or text in quotes") {
  const Types types;
  CHECK(bytes_of(types, types.bytes, "1,2,3") == "010203000000");
  CHECK(bytes_of(types, types.bytes, "{0xff,0x1}") == "ff0100000000");
  CHECK(bytes_of(types, types.bytes, "7") == "070000000000");
  CHECK(bytes_of(types, types.bytes, "0x0a0B0c0d0e0f") == "0a0b0c0d0e0f");
  CHECK(bytes_of(types, types.bytes, "\"1,2\"") == "312c32000000");
  CHECK(bytes_of(types, types.signed_bytes, "-1,2") == "ff02");
  CHECK(bytes_of(types, types.flags, "false,true") == "0001");
  CHECK(bytes_of(types, types.address, "{mac={1,2}}") == "010200000000");
  CHECK(bytes_of(types, types.address, "{mac=0x010203040506}") == "010203040506");
  CHECK(bytes_of(types, types.text, "1,2") == "312c3200");
  CHECK(bytes_of(types, types.bytes, "1,256") ==
        "invalid value '256' (expected a number that fits in 1 bytes)");
  CHECK(bytes_of(types, types.bytes, "0x010203") ==
        "invalid value '0x010203' (expected numbers in braces, 0x and 12 hexadecimal digits, or "
        "text in double quotes)");
  CHECK(bytes_of(types, types.bytes, "ab") ==
        "invalid value 'ab' (expected numbers in braces, 0x and 12 hexadecimal digits, or text in "
        "double quotes)");
  CHECK(bytes_of(types, types.bytes, "1,2,3,4,5,6,7") ==
        "invalid value '1,2,3,4,5,6,7' (expected at most 6 elements)");
}

// 2^30 ways lead to the last structure.
TEST_CASE("a member is searched once in each type") {
  Types made;
  const std::uint32_t doubled = made.add_doubled(30);
  const Types& types = made;
  CHECK(bytes_of(types, doubled, "{none=1}") == "no member 'none'");
  CHECK(bytes_of(types, doubled, "{last=258}") == "02010000");
  const ValueLocation whole{.type = doubled, .offset = 8, .size = 4};
  CHECK(find_value_part(types.get(), whole, ".none").error().message == "it has no member 'none'");
  const auto last = find_value_part(types.get(), whole, ".last");
  REQUIRE(last);
  CHECK(last->offset == 8);
}

TEST_CASE("what is not a value of the type is an error") {
  const Types types;
  CHECK(bytes_of(types, types.u32, "0x100000000") ==
        "invalid value '0x100000000' (expected a number that fits in 4 bytes)");
  CHECK(bytes_of(types, types.u32, "-1") ==
        "invalid value '-1' (expected a number that fits in 4 bytes)");
  CHECK(bytes_of(types, types.wide, "340282366920938463463374607431768211456") ==
        "invalid value '340282366920938463463374607431768211456' (expected a number that fits in "
        "16 bytes)");
  CHECK(bytes_of(types, types.text, "abcd") ==
        "invalid value 'abcd' (expected text that fits in 4 bytes)");
  CHECK(bytes_of(types, types.numbers, "1,2,3,4") ==
        "invalid value '1,2,3,4' (expected at most 3 elements)");
  CHECK(bytes_of(types, types.pair, "{c=1}") == "no member 'c'");
  CHECK(bytes_of(types, types.pair, "{a=8}") ==
        "invalid value '8' (expected a number that fits in 3 bits)");
}

TEST_CASE("a part of a value is found by its path") {
  const Types types;
  const ValueLocation whole{.type = types.pair, .offset = 8, .size = 16};
  const auto low = find_value_part(types.get(), whole, ".low");
  REQUIRE(low);
  CHECK(low->offset == 16);
  CHECK(low->size == 2);
  const auto letter = find_value_part(types.get(), whole, ".name[3]");
  REQUIRE(letter);
  CHECK(letter->offset == 15);
  CHECK(find_value_part(types.get(), whole, ".name[4]").error().message ==
        "index 4 is too large, it has 4 elements");
  CHECK(find_value_part(types.get(), whole, ".id.x").error().message == "it has no member 'x'");
}

TEST_CASE("a value without a type is a number or bytes") {
  std::vector<std::byte> bytes(2);
  REQUIRE(write_untyped_value("258", bytes));
  CHECK(bytes == std::vector{std::byte{2}, std::byte{1}});
  CHECK_FALSE(write_untyped_value("65536", bytes));
  std::vector<std::byte> large(17);
  REQUIRE(write_untyped_value("0x0102030405060708090a0b0c0d0e0f1011", large));
  CHECK(large.front() == std::byte{1});
  CHECK(large.back() == std::byte{0x11});
  CHECK_FALSE(write_untyped_value("0x01", large));
}

} // namespace uprobectl::bpf
