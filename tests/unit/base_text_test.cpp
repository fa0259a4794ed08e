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

TEST_CASE("characters become UTF-8") {
  std::string text;
  for (const std::uint32_t point : {0x41U, 0xe9U, 0x20acU, 0x10ffffU})
    append_code_point(text, point);
  CHECK(text == "A\xc3\xa9\xe2\x82\xac\xf4\x8f\xbf\xbf");
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
