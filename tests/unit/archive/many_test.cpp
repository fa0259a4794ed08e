// SPDX-License-Identifier: Apache-2.0
// Mapped archives with many entries: a lookup sorts the hashes of the names first.
#include "archive/nested.hpp"
#include "uprobectl/archive.hpp"
#include "util/mapped_file.hpp"
#include "zip_builder.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <unistd.h>

namespace uprobectl::archive {

using namespace uprobectl::test;

namespace {

// A mapped file with these bytes, which is removed at once.
MappedFile mapped(const std::string& bytes) {
  std::string path = std::filesystem::temp_directory_path() / "archive-test-XXXXXX";
  const UniqueFd file(::mkstemp(path.data()));
  REQUIRE(file);
  std::ofstream(path) << bytes;
  auto opened = MappedFile::open(path);
  ::unlink(path.c_str());
  REQUIRE(opened);
  return std::move(*opened);
}

ZipFile many(std::string_view format) {
  ZipFile file;
  for (int i = 0; i < 2000; ++i)
    file.entries.push_back({.name = fmt::format(fmt::runtime(format), i), .data = "x"});
  return file;
}

} // namespace

TEST_CASE("each lookup in a large archive finds its entry") {
  const MappedFile file = mapped(many("entry-{:04}").bytes());
  for (const std::size_t i : {7U, 1999U, 0U, 1000U, 7U}) {
    CAPTURE(i);
    const auto archive = Archive::parse(file.bytes());
    REQUIRE(archive);
    const auto entry = archive->find(fmt::format("entry-{:04}", i));
    REQUIRE(entry);
    CHECK(entry->local_header == 41 * i); // 30 + 10 + 1
    CHECK(archive->has(fmt::format("entry-{:04}", i)));
    CHECK_FALSE(archive->has("entry-2000"));
    CHECK(archive->find("entry-2000").error().kind == ErrorKind::not_found);
  }
}

TEST_CASE("a name that occurs twice in a large archive is reported at each lookup") {
  ZipFile zip = many("entry-{:04}");
  zip.entries.push_back({.name = "entry-0003", .data = "x"});
  const MappedFile file = mapped(zip.bytes());
  const auto archive = Archive::parse(file.bytes());
  REQUIRE(archive);
  for (int i = 0; i < 3; ++i) {
    const auto entry = archive->find("entry-0003");
    REQUIRE_FALSE(entry);
    CHECK(entry.error().message == "'entry-0003' occurs more than once, with local headers at "
                                   "0x7b and 0x14050"); // 3 * 41, 2000 * 41
    CHECK_FALSE(archive->has("entry-0003"));
  }
}

TEST_CASE("a large archive with a damaged directory has no entries at any lookup") {
  ZipFile zip = many("entry-{:04}");
  zip.directory_tail = "no record";
  zip.count = 2001;
  const MappedFile file = mapped(zip.bytes());
  const auto archive = Archive::parse(file.bytes());
  REQUIRE(archive);
  for (int i = 0; i < 3; ++i) CHECK(archive->find("entry-0003").error().kind == ErrorKind::corrupt);
}

TEST_CASE("an archive that is mapped where another one was has its own entries") {
  const auto finds = [](const MappedFile& file, const std::string& name) {
    const auto archive = Archive::parse(file.bytes());
    REQUIRE(archive);
    return archive->has(name) && archive->has(name);
  };
  std::optional<MappedFile> file(mapped(many("first-{:04}").bytes()));
  CHECK(finds(*file, "first-0042"));
  file.reset();
  file.emplace(mapped(many("other-{:04}").bytes()));
  CHECK_FALSE(finds(*file, "first-0042"));
  CHECK(finds(*file, "other-0042"));
}

TEST_CASE("bytes of a mapped file have its number, and others have none") {
  const MappedFile file = mapped("content");
  const auto number = mapping_number(file.bytes());
  REQUIRE(number);
  CHECK(mapping_number(file.bytes().subspan(3)) == number);
  CHECK_FALSE(mapping_number(as_bytes(std::string_view("content"))));
  const MappedFile other = mapped("content");
  CHECK(mapping_number(other.bytes()) != number);
}

} // namespace uprobectl::archive
