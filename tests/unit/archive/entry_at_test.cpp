// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/archive.hpp"

#include "zip_builder.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace uprobectl::archive {

using namespace uprobectl::test;

namespace {

// The name of the entry at the offset, "-" for none, the error's code for a failure.
std::string name_at(const std::string& bytes, std::uint64_t offset) {
  const auto archive = Archive::parse(as_bytes(bytes));
  REQUIRE(archive);
  const auto entry = archive->entry_at({offset});
  if (!entry) return std::string(code(entry.error().kind));
  return *entry ? std::string((*entry)->name) : "-";
}

// "a" has data at [31, 35), "b" at [66, 70), "c" at [101, 105); the directory begins at 105.
ZipFile three() {
  return {.entries = {{.name = "a", .data = "AAAA"},
                      {.name = "b", .data = "BBBB", .method = 8},
                      {.name = "c", .data = "CCCC"}}};
}

} // namespace

TEST_CASE("an offset in an entry's data gives the entry, compressed ones too") {
  const std::string bytes = three().bytes();
  CHECK(name_at(bytes, 31) == "a");
  CHECK(name_at(bytes, 34) == "a");
  CHECK(name_at(bytes, 66) == "b");
  CHECK(name_at(bytes, 69) == "b");
  CHECK(name_at(bytes, 104) == "c");
}

TEST_CASE("headers, the directory and bytes after it do not belong to an entry") {
  const std::string bytes = three().bytes();
  for (const std::uint64_t offset : {0ul, 30ul, 35ul, 65ul, 70ul, 105ul, 4711ul, UINT64_MAX})
    CHECK(name_at(bytes, offset) == "-");
}

TEST_CASE("gaps belong to no entry") {
  ZipFile zip = three();
  zip.before_directory = std::string(100, 's');
  zip.prepended = "prepended!";
  CHECK(name_at(zip.bytes(), 5) == "-");
  CHECK(name_at(zip.bytes(), 41) == "a");
  CHECK(name_at(zip.bytes(), 114) == "c");
  CHECK(name_at(zip.bytes(), 115) == "-");
}

TEST_CASE("the directory need not list entries in the order of their offsets") {
  ZipFile zip = three();
  for (std::uint32_t i = 0; i < 3; ++i) zip.entries[i].local_header = 35 * i;
  std::string bytes = zip.bytes();
  // The directory's three records of 47 bytes are turned round, the data stays.
  const std::string directory = bytes.substr(105, 3 * 47);
  bytes.replace(105, 3 * 47,
                directory.substr(94, 47) + directory.substr(47, 47) + directory.substr(0, 47));
  CHECK(name_at(bytes, 31) == "a");
  CHECK(name_at(bytes, 66) == "b");
  CHECK(name_at(bytes, 101) == "c");
}

TEST_CASE("where entries lie inside each other the inner one is meant") {
  // "inner" is a whole local record inside the data of "outer".
  const ZipEntry inner{.name = "inner", .data = "IIII"};
  ZipEntry outer{.name = "outer", .data = "xx" + local_record(inner) + "yy"};
  ZipFile zip{.entries = {outer}};
  std::string bytes = zip.bytes(); // outer's data at 35, inner's header at 37, its data at 72
  zip.directory_tail = central_record(inner, 37);
  bytes = zip.bytes();
  CHECK(name_at(bytes, 35) == "outer");
  CHECK(name_at(bytes, 40) == "outer");
  CHECK(name_at(bytes, 72) == "inner");
  CHECK(name_at(bytes, 77) == "outer");
}

TEST_CASE("a local header that lies is an error only where that entry would be") {
  ZipFile zip = three();
  zip.entries[1].local_name = "X";
  const std::string bytes = zip.bytes();
  CHECK(name_at(bytes, 31) == "a");
  CHECK(name_at(bytes, 66) == "corrupt");
  CHECK(name_at(bytes, 101) == "c");
}

TEST_CASE("an entry with an offset outside the file does not hide the others") {
  ZipFile zip = three();
  zip.entries[1].local_header = 0xfffffffe;
  CHECK(name_at(zip.bytes(), 31) == "a");
  CHECK(name_at(zip.bytes(), 101) == "c");
}

} // namespace uprobectl::archive
