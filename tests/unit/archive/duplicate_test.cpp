// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/archive.hpp"

#include "zip_builder.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::archive {

using namespace uprobectl::test;

namespace {

std::optional<Archive::Duplicate> duplicate_in(const std::string& bytes) {
  const auto archive = Archive::parse(as_bytes(bytes));
  REQUIRE(archive);
  return archive->duplicate().value();
}

} // namespace

TEST_CASE("an archive without equal names has no duplicate") {
  CHECK_FALSE(duplicate_in(ZipFile{.entries = {{.name = "a"},
                                               {.name = "A"},
                                               {.name = "a/"},
                                               {.name = ""},
                                               {.name = std::string("a\0", 2)}}}
                               .bytes()));
}

TEST_CASE("the first name that occurs twice is reported with both positions") {
  const std::string bytes = ZipFile{.entries = {{.name = "other", .data = "x"},
                                                {.name = "res/long_name.xml", .data = "x"},
                                                {.name = "res/long_name.xml", .data = "x"},
                                                {.name = "other", .data = "x"}}}
                                .bytes();
  const auto twice = duplicate_in(bytes);
  REQUIRE(twice);
  CHECK(twice->name == "res/long_name.xml");
  CHECK(twice->first == 36);       // 30 + 5 + 1
  CHECK(twice->second == 36 + 48); // 30 + 17 + 1
}

TEST_CASE("a duplicate among many entries is found") {
  ZipFile zip;
  for (int i = 0; i < 5000; ++i) zip.entries.push_back({.name = "res/" + std::to_string(i)});
  CHECK_FALSE(duplicate_in(zip.bytes()));
  zip.entries.push_back({.name = "res/17"});
  const std::string bytes = zip.bytes();
  const auto twice = duplicate_in(bytes);
  REQUIRE(twice);
  CHECK(twice->name == "res/17");
}

} // namespace uprobectl::archive
