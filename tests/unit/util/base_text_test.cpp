// SPDX-License-Identifier: Apache-2.0
// The helpers that parsers of text and bytes share.
#include "util/inflate.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <catch2/catch.hpp>
#include <limits>

using namespace uprobectl;

TEST_CASE("a number is parsed as the whole text or as a prefix") {
  CHECK(parse_number<int>("-12") == -12);
  CHECK(parse_number<std::uint8_t>("255") == 255);
  CHECK(parse_number<std::uint64_t>("ffffffffffffffff", 16) ==
        std::numeric_limits<std::uint64_t>::max());
  for (const std::string_view odd : {"", " 1", "1 ", "+1", "0x1", "-"}) {
    INFO(odd);
    CHECK_FALSE(parse_number<int>(odd));
  }
  CHECK_FALSE(parse_number<std::uint8_t>("256"));
  CHECK_FALSE(parse_number<unsigned>("-1"));
  std::string_view text = "12-34";
  CHECK(take_number<unsigned>(text) == 12);
  CHECK(text == "-34");
  CHECK_FALSE(take_number<unsigned>(text));
  CHECK(text == "-34");
  CHECK(take_number<int>(text) == -34);
  CHECK(text.empty());
}

TEST_CASE("lines are taken off a text one by one, the last one without a newline, too") {
  std::string_view text = "a\n\nb";
  CHECK(take_line(text) == "a");
  CHECK(take_line(text).empty());
  CHECK(take_line(text) == "b");
  CHECK(text.empty());
  CHECK(take_line(text).empty());
  CHECK(first_line("a\nb") == "a");
}

TEST_CASE("blanks are trimmed at both ends only") {
  CHECK(trimmed(" \ta b\r") == "a b");
  CHECK(trimmed("\ta ", " ") == "\ta");
  CHECK(trimmed(" \t ").empty());
}

TEST_CASE("texts are joined") {
  CHECK(joined(std::vector<std::string>{"a", "", "b"}) == "a, , b");
  CHECK(joined(std::vector<std::string_view>{}).empty());
  CHECK(joined(std::vector<std::string_view>{"a", "b"}, "/") == "a/b");
}

TEST_CASE("only the letters of ASCII have a lower case") {
  CHECK(lower_case("AZ az @[ 09 \xc3\x84") == "az az @[ 09 \xc3\x84");
  CHECK(lower_case('Q') == 'q');
  CHECK(lower_case('_') == '_');
}

TEST_CASE("characters become UTF-8") {
  std::string text;
  for (const std::uint32_t point : {0x41U, 0xe9U, 0x20acU, 0x10ffffU})
    append_code_point(text, point);
  CHECK(text == "A\xc3\xa9\xe2\x82\xac\xf4\x8f\xbf\xbf");
}

TEST_CASE("the first character of UTF-8 is a code point") {
  CHECK(first_code_point("A") == 0x41);
  CHECK(first_code_point("\xc3\xa9z") == 0xe9);
  CHECK(first_code_point("\xe2\x82\xac") == 0x20ac);
  CHECK(first_code_point("\xf4\x8f\xbf\xbf") == 0x10ffff);
}

TEST_CASE("a LEB128 number ends within its bytes, its bound and 64 bits") {
  const auto taken = [](std::string_view bytes, unsigned max_bytes = 10) {
    std::uint64_t at = 0;
    return take_uleb128(as_bytes(bytes), at, max_bytes);
  };
  CHECK(taken("\xe5\x8e\x26") == 624485U); // the example of DWARF 5, 7.6
  CHECK(taken("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") ==
        std::numeric_limits<std::uint64_t>::max());
  CHECK_FALSE(taken("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"));
  CHECK_FALSE(taken("\xe5\x8e"));
  CHECK_FALSE(taken(""));
  CHECK_FALSE(taken("\x80\x80\x80\x80\x80\x01", 5));
}

namespace {

// zlib.compress(bytes(range(256)) * 40 + b"tail", 9) of Python.
std::vector<std::byte> zlib_sample() {
  constexpr std::string_view digits =
      "78da6360646266616563e7e0e4e2e6e1e5e317101412161115139790949296919593575054525651"
      "5553d7d0d4d2d6d1d5d33730343236313533b7b0b4b2b6b1b5b37770747276717573f7f0f4f2f6f1"
      "f5f30f080c0a0e090d0b8f888c8a8e898d8b4f484c4a4e494d4bcfc8cccacec9cdcb2f282c2a2e29"
      "2d2bafa8acaaaea9adab6f686c6a6e696d6befe8eceaeee9edeb9f3071d2e42953a74d9f3173d6ec"
      "3973e7cd5fb070d1e2254b972d5fb172d5ea356bd7addfb071d3e62d5bb76ddfb173d7ee3d7bf7ed"
      "3f70f0d0e123478f1d3f71f2d4e93367cf9dbf70f1d2e52b57af5dbf71f3d6ed3b77efdd7ff0f0d1"
      "e3274f9f3d7ff1f2d5eb376fdfbdfff0f1d3e72f5fbf7dfff1f3d7ef3f7ffffd6718f5ffa8ff47fd"
      "3feaff51ff8ffa7fd4ffa3fe1ff5ffa8ff47fd3feaff51ff8ffa7fd4ffa3fe1ff5ffa8ff47fd3fea"
      "ff51ff8ffa7fd4ffa3fe1ff5ffa8ff47fd3feaff51ff8ffa7fd4ffa3fe1ff5ffa8ff47fd3feaff51"
      "ff8ffa7f08fabf2431330700ad5aeec8";
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(
        static_cast<std::byte>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  return bytes;
}

} // namespace

TEST_CASE("zlib data fills its room if its checksum is right") {
  const std::vector<std::byte> data = zlib_sample();
  std::vector<std::byte> room(10244);
  REQUIRE(inflate_zlib_into(room, data));
  CHECK(as_text(room).ends_with("\xfd\xfe\xfftail"));
  for (std::size_t i = 0; i < 10240; ++i) REQUIRE(room[i] == static_cast<std::byte>(i % 256));

  CHECK_FALSE(inflate_zlib_into(room, std::span(data).first(data.size() - 1)));
  CHECK_FALSE(inflate_zlib_into(std::span(room).first(10243), data));
  std::vector<std::byte> larger(10245);
  CHECK_FALSE(inflate_zlib_into(larger, data));
  CHECK_FALSE(inflate_zlib_into(room, {}));
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, data.size() - 4, data.size() - 1}) {
    std::vector<std::byte> damaged = data;
    damaged[at] ^= std::byte{1};
    CHECK_FALSE(inflate_zlib_into(room, damaged));
  }
  // RFC 1950: the checksum of no bytes is 1; of "abc" it is 0x024d0127.
  CHECK(inflate_zlib_into({}, as_bytes(std::string_view("\x78\x9c\x03\x00\x00\x00\x00\x01", 8))));
  std::vector<std::byte> three(3);
  CHECK(
      inflate_zlib_into(three, as_bytes(std::string_view("\x78\x9c\x4b\x4c\x4a\x06\x00\x02\x4d\x01"
                                                         "\x27",
                                                         11))));
}

TEST_CASE("raw deflate data fills its room, or is refused") {
  const std::string_view stored("\x01\x03\x00\xfc\xff"
                                "abc",
                                8); // RFC 1951, 3.2.4
  std::vector<std::byte> room(3);
  CHECK(inflate_into(room, as_bytes(stored)));
  CHECK(as_text(room) == "abc");
  CHECK_FALSE(inflate_into(room, as_bytes(stored.substr(0, 7))));
  room.resize(4);
  CHECK_FALSE(inflate_into(room, as_bytes(stored)));
  CHECK(inflate_into({}, {}));
}

TEST_CASE("a long text is shortened at the end of a character") {
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("abcd", 3) == "abc…");
  CHECK(shortened("", 0) == "");
  CHECK(shortened("aäö", 5) == "aäö");
  CHECK(shortened("aäöx", 4) == "aä…");
  CHECK(shortened("aäöx", 5) == "aäö…");
  CHECK(shortened("x🙂y", 4) == "x…");
  CHECK(shortened("\xff\xff\xff", 2) == "\xff\xff…");
}
