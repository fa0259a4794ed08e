// SPDX-License-Identifier: Apache-2.0
#include "util/shell_words.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

namespace {
using Words = std::vector<std::string>;
}

TEST_CASE("words are split at blanks, and a comment ends the line") {
  CHECK(*split_words("libc.so.6 malloc\tfree  # the usual two") ==
        Words{"libc.so.6", "malloc", "free"});
  CHECK(split_words("")->empty());
  CHECK(split_words("   # nothing\r")->empty());
  CHECK(*split_words("a#b") == Words{"a#b"});
}

TEST_CASE("quotes keep blanks and join with adjacent text") {
  CHECK(*split_words("'x y.apk!/lib/a.so' \"ns::Foo::bar(int, char)\"") ==
        Words{"x y.apk!/lib/a.so", "ns::Foo::bar(int, char)"});
  CHECK(*split_words("a'b c'd") == Words{"ab cd"});
  CHECK(*split_words("'' \"\"") == Words{"", ""});
}

TEST_CASE("a backslash takes the next character as it is") {
  CHECK(*split_words(R"(a\ b \'c \\)") == Words{"a b", "'c", "\\"});
  CHECK(*split_words(R"("a\"b" "a\nb" 'a\b')") == Words{"a\"b", "a\\nb", "a\\b"});
}

TEST_CASE("unclosed quotes are rejected") {
  for (const char* line : {"'a", "\"a", "a\\", "\"a\\\""}) {
    const auto words = split_words(line);
    REQUIRE_FALSE(words);
    CHECK(words.error().kind == ErrorKind::usage);
  }
}

TEST_CASE("words of many lines stay what they are, quoted or not") {
  WordSplitter splitter;
  const std::string first = "a.so 'ns::f(int, char)'";
  const std::string second = "b.so g\\ h";
  std::vector<std::string_view> kept;
  for (const std::string& line : {std::cref(first), std::cref(second)}) {
    const auto words = splitter.split(line);
    REQUIRE(words);
    kept.insert(kept.end(), words->begin(), words->end());
  }
  CHECK(kept == std::vector<std::string_view>{"a.so", "ns::f(int, char)", "b.so", "g h"});
  CHECK(kept[0].data() == first.data());
}

TEST_CASE("a word ends at a blank or quote at each position of a long line") {
  for (std::size_t size = 0; size < 40; ++size) {
    const std::string word(size, 'x');
    CHECK(*split_words("l " + word + "\ty") ==
          (size == 0 ? Words{"l", "y"} : Words{"l", word, "y"}));
    CHECK(*split_words("l " + word + "'y z'" + word) == Words{"l", word + "y z" + word});
  }
}
