// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"
#include "uprobectl/archive.hpp"
#include "zip_builder.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::archive {

using namespace uprobectl::test;

namespace {

constexpr std::uint64_t plenty = 1 << 20;

ZipEntry entry_of(const std::string& content, std::uint16_t method) {
  ZipEntry entry{.name = "x", .data = method == 8 ? deflated(content) : content, .method = method};
  entry.flags = 8; // the local header has no sizes
  entry.size = static_cast<std::uint32_t>(content.size());
  entry.crc = crc32_of(content);
  return entry;
}

Result<std::vector<std::byte>> extracted(const ZipEntry& entry, std::uint64_t most = plenty) {
  const std::string bytes = ZipFile{.entries = {entry}}.bytes();
  const auto archive = Archive::parse(as_bytes(bytes));
  REQUIRE(archive);
  std::optional<ArchiveEntry> first;
  REQUIRE(archive->for_each([&](const ArchiveEntry& found) {
    first = found;
    return false;
  }));
  return archive->extract(*first, most);
}

} // namespace

TEST_CASE("stored and deflated entries are extracted, whole or their beginning") {
  const std::string content = std::string(5000, 'a') + "end";
  for (const std::uint16_t method : {0, 8}) {
    const auto whole = extracted(entry_of(content, method));
    REQUIRE(whole);
    CHECK(as_text(*whole) == content);
    CHECK(as_text(*extracted(entry_of(content, method), 5000)) == std::string(5000, 'a'));
    CHECK(extracted(entry_of("", method))->empty());
  }
}

TEST_CASE("an entry is corrupt where content, size and CRC do not agree") {
  auto entry = entry_of("content", 8);
  entry.crc = 1;
  CHECK(extracted(entry).error().kind == ErrorKind::corrupt);
  CHECK(extracted(entry, 3)); // the CRC of a part is not known
  entry = entry_of("content", 8);
  entry.size = 8;
  CHECK(extracted(entry).error().kind == ErrorKind::corrupt);
  entry = entry_of("content", 0);
  entry.size = 8;
  CHECK(extracted(entry).error().kind == ErrorKind::corrupt);
  entry = entry_of(std::string(5000, 'a'), 8);
  entry.data[entry.data.size() / 2] ^= 0x55;
  CHECK(extracted(entry).error().kind == ErrorKind::corrupt);
}

TEST_CASE("a size beyond DEFLATE's ratio is rejected before allocation") {
  auto entry = entry_of("content", 8);
  entry.size = 0xfffffff0;
  CHECK(extracted(entry, UINT64_MAX).error().message.find("cannot have 0xfffffff0 bytes") !=
        std::string::npos);
}

TEST_CASE("encrypted entries and other methods are not extracted") {
  auto entry = entry_of("content", 0);
  entry.flags = 9;
  CHECK(extracted(entry).error().kind == ErrorKind::encrypted);
  entry = entry_of("content", 0);
  entry.method = 14;
  CHECK(extracted(entry).error().message == "'x' is compressed with lzma, which is not supported");
}

} // namespace uprobectl::archive
