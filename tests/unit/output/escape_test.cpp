// SPDX-License-Identifier: Apache-2.0
#include "output/format.hpp"

#include <catch2/catch.hpp>

namespace {

std::string made_printable(std::string_view text) {
  std::string out;
  uprobectl::output::append_printable(out, text);
  return out;
}

std::string json(std::string_view text) {
  std::string out;
  uprobectl::output::append_json(out, text);
  return out;
}

} // namespace

TEST_CASE("control characters reach a terminal as text only") {
  CHECK(made_printable("a\x1b[31mb\n") == "a\\x1b[31mb\\x0a");
  CHECK(made_printable("\x7f") == "\\x7f");
  CHECK(made_printable("\xc2\x9b") == "\\xc2\\x9b"); // U+009B is CSI, too
  CHECK(made_printable(std::string_view("\0", 1)) == "\\x00");
}

TEST_CASE("readable text stays as it is, bytes that are not UTF-8 are shown as numbers") {
  CHECK(made_printable("operator\"\" _x\\ größe €") == "operator\"\" _x\\ größe €");
  CHECK(made_printable("a\xff z") == "a\\xff z");
  CHECK(made_printable("long enough to be read in words \xe2\x82") ==
        "long enough to be read in words \\xe2\\x82");
}

TEST_CASE("characters that change the direction of text, or end lines, are shown as numbers") {
  // ALM, LRM, RLM, LRE to RLO, LRI to PDI, line and paragraph separator.
  for (const std::string character :
       {"\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066",
        "\u2067", "\u2068", "\u2069", "\u2028", "\u2029"}) {
    CAPTURE(character);
    CHECK(made_printable("a" + character + "b").starts_with("a\\x"));
    CHECK(made_printable("a" + character + "b").ends_with("b"));
    CHECK(json("a" + character + "b").starts_with("a\\u"));
  }
  CHECK(made_printable("x\u202egnp.so") == "x\\xe2\\x80\\xaegnp.so");
  CHECK(json("x\u202egnp.so") == "x\\u202egnp.so");
  CHECK(json("\xc2\x9b") == "\\u009b");
  CHECK(json("\u061c") == "\\u061c");
  // Neighbours of these, and right-to-left text itself.
  for (const std::string readable : {"\u061b", "\u200d", "\u2010", "\u202f", "\u2065", "\u206a",
                                     "\u05d0", "\u00a0", "\U0001f600"}) {
    CHECK(made_printable(readable) == readable);
    CHECK(json(readable) == readable);
  }
}

TEST_CASE("between quotes the end of a text cannot be faked") {
  const auto quoted = [](std::string_view text, char quote) {
    std::string out;
    uprobectl::output::append_quoted(out, text, quote);
    return out;
  };
  CHECK(quoted("a\" b=\"c\\", '"') == R"("a\" b=\"c\\")");
  CHECK(quoted("it's\x1b", '"') == R"("it's\x1b")");
  CHECK(quoted("'", '\'') == R"('\'')");
  CHECK(quoted(std::string_view("\0\"", 2), '"') == R"("\x00\"")");
  CHECK(quoted("", '"') == R"("")");
}

TEST_CASE("JSON strings escape what RFC 8259 requires") {
  CHECK(json("a\"b\\c\n\t\x01") == "a\\\"b\\\\c\\n\\t\\u0001");
  CHECK(json("eight by\"tes and more") == "eight by\\\"tes and more");
  CHECK(json("\xe2\x82\xac") == "\xe2\x82\xac");
}

TEST_CASE("each byte that is not UTF-8 becomes one replacement character") {
  const std::string bad = "\xef\xbf\xbd";
  CHECK(json("\xff") == bad);
  CHECK(json("\xc0\x80") == bad + bad);           // overlong NUL
  CHECK(json("\xed\xa0\x80") == bad + bad + bad); // a surrogate
  CHECK(json("\xf4\x90\x80\x80x") == bad + bad + bad + bad + "x");
  CHECK(json("\xe2\x82") == bad + bad); // cut off
}

// Text is looked at in blocks of several sizes.
TEST_CASE("a byte is escaped equally at each position") {
  const std::string plain(40, 'p');
  for (unsigned value = 0; value < 0x100; ++value) {
    const std::string byte(1, static_cast<char>(value));
    for (std::size_t at = 0; at <= plain.size(); ++at) {
      const std::string before = plain.substr(at);
      const std::string after = plain.substr(0, at);
      CAPTURE(value, at);
      REQUIRE(made_printable(before + byte + after) == before + made_printable(byte) + after);
      REQUIRE(json(before + byte + after) == before + json(byte) + after);
    }
  }
}

TEST_CASE("a special byte is escaped at each position of texts of each length") {
  for (std::size_t size = 1; size <= 140; ++size) {
    const std::string plain(size, '~'); // the last one that is plain
    REQUIRE(made_printable(plain) == plain);
    REQUIRE(json(plain) == plain);
    for (std::size_t at = 0; at < size; ++at) {
      const std::string before = plain.substr(0, at);
      const std::string after = plain.substr(at + 1);
      CAPTURE(size, at);
      REQUIRE(made_printable(before + '\x7f' + after) == before + "\\x7f" + after);
      REQUIRE(json(before + '"' + after) == before + "\\\"" + after);
    }
  }
}
