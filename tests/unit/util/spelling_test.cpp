// SPDX-License-Identifier: Apache-2.0
#include "util/spelling.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

TEST_CASE("edits are counted up to the limit") {
  CHECK(edit_distance("malloc", "malloc", 0) == 0U);
  CHECK(edit_distance("maloc", "malloc", 3) == 1U);
  CHECK(edit_distance("kitten", "sitting", 3) == 3U);
  CHECK_FALSE(edit_distance("kitten", "sitting", 2));
  CHECK_FALSE(edit_distance("a", "abcdefgh", 3));
  CHECK(edit_distance("", "ab", 2) == 2U);
  CHECK(edit_distance("abcdefghij", "xxxxxxxxxx", 20) == std::nullopt); // above eight: not counted
}

TEST_CASE("the nearest names come first, three at most, each once") {
  const std::vector<std::string> names = {"valloc", "calloc", "malloc", "malloc", "mall", "free"};
  CHECK(nearest("maloc", names) == std::vector<std::string>{"malloc", "valloc", "calloc"});
  CHECK(nearest("malloc", names) == std::vector<std::string>{"malloc", "valloc", "calloc"});
  CHECK(nearest("x", names).empty());
}

TEST_CASE("suggestions allow two edits in five letters, none in two") {
  // mlock is two slips away, too, but keeps less of the ends.
  CHECK(nearest("maloc", {"mlock", "valloc", "free", "malloc", "calloc"}) ==
        std::vector<std::string>{"malloc", "valloc", "calloc"});
  CHECK(suggestion_limit("abc") == 1);
  CHECK(suggestion_limit("maloc") == 2);
  CHECK(suggestion_limit("pthread_create") == 3);
  CHECK(nearest("ls", {"la", "lsof"}) == std::vector<std::string>{"lsof"});
}

TEST_CASE("a beginning is as good as a misspelling") {
  CHECK(nearest("list", {"list-symbols", "resolve"}) == std::vector<std::string>{"list-symbols"});
}

TEST_CASE("suggestions are printed as a question") {
  CHECK(did_you_mean({"a"}) == "did you mean 'a'?");
  CHECK(did_you_mean({"a", "b", "c"}) == "did you mean 'a', 'b' or 'c'?");
  CHECK(did_you_mean({}).empty());
}
