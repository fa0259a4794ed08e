// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/archive.hpp"

#include "zip_builder.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::archive {

using namespace uprobectl::test;

namespace {

// The names of all entries, or the error's code after those seen before it.
std::vector<std::string> entry_names(const std::string& bytes) {
  std::vector<std::string> result;
  const auto archive = Archive::parse(as_bytes(bytes));
  if (!archive) return {std::string(code(archive.error().kind))};
  const auto walked = archive->for_each([&](const ArchiveEntry& entry) {
    result.emplace_back(entry.name);
    return true;
  });
  if (!walked) result.emplace_back(code(walked.error().kind));
  return result;
}

ArchiveEntry first_entry(const std::string& bytes) {
  const auto archive = Archive::parse(as_bytes(bytes));
  REQUIRE(archive);
  ArchiveEntry first;
  REQUIRE(archive->for_each([&](const ArchiveEntry& entry) {
    first = entry;
    return false;
  }));
  return first;
}

std::string zip64_field(const std::string& values) {
  return le<std::uint16_t>(1) + le<std::uint16_t>(values.size()) + values;
}

using Names = std::vector<std::string>;

} // namespace

TEST_CASE("an entry has its compression method") {
  const std::string bytes =
      ZipFile{.entries = {{.name = "a", .data = "12345", .method = 8, .flags = 1}}}.bytes();
  const ArchiveEntry entry = first_entry(bytes);
  CHECK(entry.name == "a");
  CHECK(entry.method == 8);
  CHECK(entry.encrypted);
  CHECK(entry.size == 5);
  CHECK(entry.compressed_size == 5);
  CHECK(entry.crc32 == 0x12345678);
  CHECK(entry.local_header == 0);
  CHECK_FALSE(entry.probeable());
}

TEST_CASE("a visit that returns false ends the walk") {
  const std::string bytes = ZipFile{.entries = {{.name = "a"}, {.name = "b"}}}.bytes();
  int visits = 0;
  CHECK(Archive::parse(as_bytes(bytes))->for_each([&](const ArchiveEntry&) {
    ++visits;
    return false;
  }));
  CHECK(visits == 1);
}

TEST_CASE("a name may hold any byte") {
  const Names odd = {std::string("nul\0here", 8), "cr\r", "a!/b.so", "\xff\xfe", "", "dir/"};
  ZipFile zip;
  for (const std::string& name : odd) zip.entries.push_back({.name = name, .data = "x"});
  const std::string bytes = zip.bytes();
  CHECK(entry_names(bytes) == odd);
  const auto archive = Archive::parse(as_bytes(bytes));
  for (const std::string& name : odd) CHECK(archive->find(name)->name == name);
}

TEST_CASE("zeros that are not valid extra fields are not an error") {
  for (const std::size_t padding : {1u, 2u, 3u, 4u, 7u, 4095u}) {
    ZipEntry entry{.name = "a", .data = "x"};
    entry.local_extra = std::string(padding, '\0');
    entry.central_extra = std::string(padding, '\0');
    const std::string bytes = ZipFile{.entries = {entry}}.bytes();
    const auto archive = Archive::parse(as_bytes(bytes));
    CHECK(archive->data_offset(*archive->find("a"))->value == 31 + padding);
  }
}

TEST_CASE("a ZIP64 field holds only the values that are saturated") {
  ZipEntry entry{.name = "a", .data = "x"};
  entry.size = 0xffffffff;
  entry.central_extra = zip64_field(le<std::uint64_t>(0x123456789a));
  CHECK(first_entry(ZipFile{.entries = {entry}}.bytes()).size == 0x123456789a);

  entry.compressed = 0xffffffff;
  entry.local_header = 0xffffffff;
  entry.central_extra =
      std::string("\x55\x54\x01\x00?", 5) + // another field in front
      zip64_field(le<std::uint64_t>(1) + le<std::uint64_t>(2) + le<std::uint64_t>(3));
  const std::string all = ZipFile{.entries = {entry}}.bytes();
  CHECK(first_entry(all).size == 1);
  CHECK(first_entry(all).compressed_size == 2);
  CHECK(first_entry(all).local_header == 3);

  entry.size = entry.compressed = {};
  entry.central_extra = zip64_field(le<std::uint64_t>(0x100000000));
  const std::string offset_only = ZipFile{.entries = {entry}}.bytes();
  CHECK(first_entry(offset_only).size == 1);
  CHECK(first_entry(offset_only).local_header == 0x100000000);

  entry.local_header = {};
  entry.central_extra = zip64_field(le<std::uint64_t>(99)); // nothing saturated: not read
  CHECK(first_entry(ZipFile{.entries = {entry}}.bytes()).size == 1);
}

TEST_CASE("a saturated value without its ZIP64 field spoils that entry only") {
  ZipEntry bad{.name = "bad.so", .data = "x"};
  const ZipEntry good{.name = "good.so", .data = "GOOD"};
  for (const std::string& extra : {std::string(), zip64_field("1234567"), zip64_field("")}) {
    bad.size = bad.compressed = 0xffffffff;
    bad.central_extra = extra;
    bad.local_size = 0xffffffff;
    const std::string bytes = ZipFile{.entries = {bad, good}}.bytes();
    const auto archive = Archive::parse(as_bytes(bytes));
    CHECK(archive->stored_bytes(*archive->find("bad.so")).error().kind == ErrorKind::corrupt);
    CHECK(as_text(*archive->stored_bytes(*archive->find("good.so"))) == "GOOD");
  }
}

TEST_CASE("an offset that wraps around when shifted is outside the archive") {
  ZipEntry entry{.name = "a", .data = "x"};
  entry.local_header = 0xffffffff;
  entry.central_extra = zip64_field(le<std::uint64_t>(UINT64_MAX - 1));
  const std::string bytes = ZipFile{.entries = {entry}, .prepended = "prepended"}.bytes();
  const auto archive = Archive::parse(as_bytes(bytes));
  CHECK(archive->data_offset(*archive->find("a")).error().kind == ErrorKind::corrupt);
}

TEST_CASE("the directory's bytes decide which entries there are, not the recorded number") {
  ZipFile zip{.entries = {{.name = "a"}, {.name = "b"}, {.name = std::string(60, 'c')}}};
  for (const std::uint16_t count : {0, 1, 2, 3, 4}) {
    zip.count = count;
    CHECK(entry_names(zip.bytes()) == Names{"a", "b", std::string(60, 'c')});
  }
}

TEST_CASE("padding or a signature after the last directory entry is accepted") {
  ZipFile zip{.entries = {{.name = "a"}}};
  zip.directory_tail = "PK\5\5" + le<std::uint16_t>(2) + "ab";
  CHECK(entry_names(zip.bytes()) == Names{"a"});
  zip.directory_tail = std::string(100, '\0');
  CHECK(entry_names(zip.bytes()) == Names{"a"});
  zip.count = 2;
  CHECK(entry_names(zip.bytes()) == Names{"a", "corrupt"});
}

TEST_CASE("a record beyond the directory is corrupt, earlier ones are visited") {
  ZipFile zip{.entries = {{.name = "a"}, {.name = "b"}}};
  std::string bytes = zip.bytes();
  const std::size_t second = bytes.rfind("PK\1\2");
  bytes.replace(second + 28, 2, "\xff\xff"); // the name's length
  CHECK(entry_names(bytes) == Names{"a", "corrupt"});
  CHECK(Archive::parse(as_bytes(bytes))->find("a").error().kind == ErrorKind::corrupt);
}

} // namespace uprobectl::archive
