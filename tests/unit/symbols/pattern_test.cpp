// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/symbols.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::symbols {

TEST_CASE("a pattern matches the whole name") {
  CHECK(matches_pattern("re*ad?", "re_thread1"));
  CHECK_FALSE(matches_pattern("re*ad?", "re_thread"));
  CHECK(matches_pattern("[ab]*", "bcd"));
  CHECK_FALSE(matches_pattern("[ab]*", "cab"));
  CHECK(matches_pattern("*", ""));
  CHECK_FALSE(matches_pattern("", "x"));
  CHECK(matches_pattern("a*b*c", "axxbxxbc"));
}

TEST_CASE("brackets take ranges, negation and a leading closing bracket") {
  CHECK(matches_pattern("f[0-9]", "f7"));
  CHECK_FALSE(matches_pattern("f[!0-9]", "f7"));
  CHECK(matches_pattern("f[!a-c]", "fd"));
  CHECK(matches_pattern("[]x]", "]"));
  CHECK(matches_pattern("[a-]", "-"));
  CHECK(matches_pattern("a[", "a[")); // never closed: an ordinary character
}

TEST_CASE("a backslash takes the meaning away") {
  CHECK(matches_pattern("operator\\*", "operator*"));
  CHECK_FALSE(matches_pattern("operator\\*", "operator+"));
  CHECK(matches_pattern("\\[a\\]", "[a]"));
  CHECK_FALSE(is_pattern("operator\\*"));
}

TEST_CASE("only unescaped metacharacters make a pattern") {
  CHECK(is_pattern("mall?c"));
  CHECK(is_pattern("*"));
  CHECK(is_pattern("[ab]"));
  CHECK_FALSE(is_pattern("malloc"));
  CHECK_FALSE(is_pattern("operator["));
}

TEST_CASE("many stars take no exponential time") {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  CHECK_FALSE(matches_pattern(pattern + "b", std::string(5000, 'a')));
}

TEST_CASE("100,000 unclosed brackets take no quadratic time") {
  const std::string brackets(120000, '[');
  CHECK_FALSE(is_pattern(brackets));
  CHECK_FALSE(is_pattern(brackets + "\\]"));
  CHECK(is_pattern(brackets + "*"));
  CHECK(is_pattern("[[a]"));
}

TEST_CASE("suggestions use the pattern without its wildcards") {
  CHECK(without_wildcards("*mal?oc*") == "maloc");
  CHECK(without_wildcards("[ab]cd") == "abcd");
  CHECK(without_wildcards("malloc") == "malloc");
}

} // namespace uprobectl::symbols
