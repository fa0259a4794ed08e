#include "uprobectl/resolve.hpp"

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

TEST_CASE("quotes keep blanks, and join with what stands beside them") {
  CHECK(*split_words("'x y.apk!/lib/a.so' \"ns::Foo::bar(int, char)\"") ==
        Words{"x y.apk!/lib/a.so", "ns::Foo::bar(int, char)"});
  CHECK(*split_words("a'b c'd") == Words{"ab cd"});
  CHECK(*split_words("'' \"\"") == Words{"", ""});
}

TEST_CASE("a backslash takes the next character as it is") {
  CHECK(*split_words(R"(a\ b \'c \\)") == Words{"a b", "'c", "\\"});
  CHECK(*split_words(R"("a\"b" "a\nb" 'a\b')") == Words{"a\"b", "a\\nb", "a\\b"});
}

TEST_CASE("what is not closed is refused") {
  for (const char* line : {"'a", "\"a", "a\\", "\"a\\\""}) {
    const auto words = split_words(line);
    REQUIRE_FALSE(words);
    CHECK(words.error().kind == ErrorKind::usage);
  }
}
