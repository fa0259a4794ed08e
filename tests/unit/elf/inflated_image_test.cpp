// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"
#include "zip_builder.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::elf {

using namespace uprobectl::test;

namespace {

ZipEntry library_entry() {
  const std::string content = stripped_elf({});
  ZipEntry entry{.name = "lib/x.so", .data = deflated(content), .method = 8, .flags = 8};
  entry.size = static_cast<std::uint32_t>(content.size());
  entry.crc = crc32_of(content);
  return entry;
}

Result<Image> open(const ZipEntry& entry, Compressed compressed) {
  const Folder folder;
  const auto path = folder.put("x.apk", ZipFile{.entries = {entry}}.bytes());
  auto file = MappedFile::open(path);
  REQUIRE(file);
  return Image::open(std::make_shared<const MappedFile>(std::move(*file)), {path, entry.name},
                     compressed);
}

} // namespace

TEST_CASE("a compressed library is inflated on request only and has no file offset") {
  const auto entry = library_entry();
  CHECK(open(entry, Compressed::reject).error().kind == ErrorKind::compressed);
  const auto image = open(entry, Compressed::inflate);
  REQUIRE(image);
  CHECK(image->is_inflated());
  CHECK(as_text(image->bytes()) == stripped_elf({}));
  const Segment& segment = image->segments().front();
  CHECK(image->to_image(segment.address) == segment.offset);
  CHECK_FALSE(image->to_file(segment.offset));
}

TEST_CASE("a stored library keeps its file offset with extracted set") {
  ZipEntry entry = library_entry();
  entry.data = stripped_elf({});
  entry.method = 0;
  const auto image = open(entry, Compressed::inflate);
  REQUIRE(image);
  CHECK_FALSE(image->is_inflated());
  const Segment& segment = image->segments().front();
  CHECK(image->to_file(segment.offset) ==
        FileOffset{image->entry_data().value + segment.offset.value});
}

TEST_CASE("an entry that cannot be inflated has a reason") {
  ZipEntry entry = library_entry();
  entry.flags = 9;
  CHECK(open(entry, Compressed::inflate).error().kind == ErrorKind::encrypted);
  entry = library_entry();
  entry.method = 93;
  CHECK(open(entry, Compressed::inflate).error().kind == ErrorKind::unsupported);
  entry = library_entry();
  entry.crc += 1;
  CHECK(open(entry, Compressed::inflate).error().kind == ErrorKind::corrupt);
  entry = library_entry();
  entry.size = (512U << 20) + 1; // in the directory: nothing has been inflated yet
  const Error error = open(entry, Compressed::inflate).error();
  CHECK(error.kind == ErrorKind::unsupported);
  CHECK(error.message.ends_with("has 536870913 bytes uncompressed, at most 536870912 (512 "
                                "MiB) are inflated"));
}

} // namespace uprobectl::elf
