// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/archive.hpp"

#include "zip_builder.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::archive {

using namespace uprobectl::test;

namespace {

Error find_error(const std::vector<std::string>& names, std::string_view wanted) {
  ZipFile zip;
  for (const std::string& name : names) zip.entries.push_back({.name = name, .data = "x"});
  const std::string bytes = zip.bytes();
  const auto archive = Archive::parse(as_bytes(bytes));
  REQUIRE(archive);
  const auto found = archive->find(wanted);
  REQUIRE_FALSE(found);
  return found.error();
}

using Hints = std::vector<std::string>;

} // namespace

TEST_CASE("an entry is found by exactly its name") {
  const std::string bytes =
      ZipFile{.entries = {{.name = "lib/x.so"}, {.name = "LIB/X.SO"}, {.name = "x.so"}}}.bytes();
  const auto archive = Archive::parse(as_bytes(bytes));
  CHECK(archive->find("LIB/X.SO")->local_header == 38);
  CHECK_FALSE(archive->find("lib/x.s"));
  CHECK_FALSE(archive->find("/lib/x.so"));
}

TEST_CASE("a name that occurs twice is refused with both positions") {
  const Error error = find_error({"lib/x.so", "other", "lib/x.so"}, "lib/x.so");
  CHECK(error.kind == ErrorKind::duplicated);
  CHECK(error.message ==
        "'lib/x.so' occurs more than once, with local headers at 0x0 and 0x4b"); // 39 + 36
}

TEST_CASE("a missing entry without a near name has no hint") {
  const Error error = find_error({"classes.dex", "lib/arm64-v8a/libfoo.so"}, "assets/data");
  CHECK(error.kind == ErrorKind::not_found);
  CHECK(error.message == "no entry 'assets/data'");
  CHECK(error.hints.empty());
}

TEST_CASE("the same library in another folder is proposed first, the nearest folder in front") {
  const Error error =
      find_error({"lib/x86_64/libfoo.so", "lib/arm64-v8a/libfop.so", "lib/armeabi-v7a/libfoo.so",
                  "lib/arm64-v8a/libfoo.so", "lib/x86/libfoo.so"},
                 "lib/arm64/libfoo.so");
  CHECK(
      error.hints ==
      Hints{
          "did you mean 'lib/arm64-v8a/libfoo.so', 'lib/armeabi-v7a/libfoo.so' or 'lib/x86_64/libfoo.so'?"});
}

TEST_CASE("misspelt names are proposed, with or without their folder") {
  const std::vector<std::string> names = {"lib/arm64-v8a/libfoo.so", "lib/arm64-v8a/libquux.so"};
  const Hints foo = {"did you mean 'lib/arm64-v8a/libfoo.so'?"};
  CHECK(find_error(names, "libfoo.so").hints == foo);
  CHECK(find_error(names, "libfo.so").hints == foo);
  CHECK(find_error(names, "lib/arm64-v8a/libfooo.so").hints == foo);
  CHECK(find_error(names, "lib/arm64_v8a/libfo.so").hints == foo);
  CHECK(find_error({"abc", "abd"}, "abx").hints == Hints{"did you mean 'abc' or 'abd'?"});
}

TEST_CASE("distance counts letters added, left out and replaced, up to the allowance") {
  const std::string wanted = "0123456789"; // ten letters: three slips
  for (const std::string near :
       {"123456789", "3456789", "0123456789abc", "0a2b4c6789", "x0123y4567z89", "0123456"})
    CHECK(find_error({near}, wanted).hints.size() == 1);
  for (const std::string far : {"456789", "0123456789abcd", "0a2b4c6d89", "9876543210", ""})
    CHECK(find_error({far}, wanted).hints.empty());
  CHECK(find_error({"ab"}, "xb").hints.empty()); // too short to be a slip
}

TEST_CASE("names in messages are as they are in the archive: who prints them makes them harmless") {
  const Error error = find_error({"test.txt\r", std::string("test.txt\0", 9)}, "test.txt\x1b");
  CHECK(error.message == "no entry 'test.txt\x1b'");
  CHECK(error.hints == Hints{std::string("did you mean 'test.txt\r' or 'test.txt\0'?", 40)});
}

TEST_CASE("near names among very long ones are found in linear time") {
  const std::string shared(60000, 'a');
  std::vector<std::string> names;
  for (char last = 'a'; last < 'k'; ++last) names.push_back(shared + "b" + last);
  CHECK(find_error(names, shared + "bz").hints.size() == 1);
}

} // namespace uprobectl::archive
