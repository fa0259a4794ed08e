// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/path.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

TEST_CASE("a path without separator has one reading") {
  REQUIRE(parse_candidates("/lib/libc.so.6").size() == 1);
  CHECK(parse_candidates("/lib/libc.so.6")[0] == BinaryPath{"/lib/libc.so.6", std::nullopt});
  CHECK(parse_candidates("").empty());
}

TEST_CASE("every separator gives a reading, the whole text comes first") {
  const auto all = parse_candidates("a!/b.apk!/lib/x.so");
  REQUIRE(all.size() == 3);
  CHECK(all[0] == BinaryPath{"a!/b.apk!/lib/x.so", std::nullopt});
  CHECK(all[1] == BinaryPath{"a", "b.apk!/lib/x.so"});
  CHECK(all[2] == BinaryPath{"a!/b.apk", "lib/x.so"});
}

TEST_CASE("an empty part around the separator is not an archive path") {
  CHECK(parse_candidates("!/entry").size() == 1);
  CHECK(parse_candidates("x.apk!/").size() == 1);
}

TEST_CASE("a library is named without its folder") {
  const auto names = parse_library_names("a!b.apk!libx.so!/c");
  REQUIRE(names.size() == 2);
  CHECK(names[0] == BinaryPath{"a", "b.apk!libx.so!/c"});
  CHECK(names[1] == BinaryPath{"a!b.apk", "libx.so!/c"});
  for (const char* const text : {"x.apk!/lib/libx.so", "!libx.so", "x.apk!", "libx.so", ""})
    CHECK(parse_library_names(text).empty());
}

TEST_CASE("text longer than any path is not read, however many separators it has") {
  std::string text = "x";
  while (text.size() + 2 <= max_path_length) text += "!/";
  CHECK(parse_candidates(text).size() ==
        1 + 2046); // of the 2047 separators the last has nothing after it
  CHECK(parse_candidates(text + "!/").empty());
}

TEST_CASE("a path prints as it was written") {
  CHECK(to_string({"x.apk", "lib/arm64-v8a/libfoo.so"}) == "x.apk!/lib/arm64-v8a/libfoo.so");
  CHECK(to_string({"/bin/ls", std::nullopt}) == "/bin/ls");
}
