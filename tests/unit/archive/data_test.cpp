// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/archive.hpp"

#include "zip_builder.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::archive {

using namespace uprobectl::test;

namespace {

// Looks the first entry up and asks for its stored bytes.
Result<std::string> stored(const ZipEntry& entry) {
  const std::string bytes = ZipFile{.entries = {entry}}.bytes();
  const auto archive = Archive::parse(as_bytes(bytes));
  REQUIRE(archive);
  const auto found = archive->find(entry.name);
  REQUIRE(found);
  const auto data = archive->stored_bytes(*found);
  if (!data) return fail(data.error());
  return std::string(as_text(*data));
}

const ZipEntry sound = {.name = "lib/x.so", .data = "DATA"};

} // namespace

TEST_CASE("stored bytes are the entry's data") { CHECK(stored(sound) == "DATA"); }

TEST_CASE("sizes come from the directory where a data descriptor follows the data") {
  ZipEntry entry = sound;
  entry.flags = 8; // the local header's sizes are zero
  CHECK(stored(entry) == "DATA");
}

TEST_CASE("a compressed library is refused with the ways out") {
  ZipEntry entry = sound;
  entry.method = 8;
  const Error error = stored(entry).error();
  CHECK(error.kind == ErrorKind::compressed);
  CHECK(error.message == "'lib/x.so' is compressed (deflated): the kernel can only probe bytes "
                         "stored as they are");
  REQUIRE(error.hints.size() == 2);
  CHECK(error.hints[0].find("android:extractNativeLibs=\"false\"") != std::string::npos);
  CHECK(error.hints[0].find("packaging.jniLibs.useLegacyPackaging = false") != std::string::npos);
  CHECK(error.hints[0].find("zipalign -p 4") != std::string::npos);
  CHECK(error.hints[1].find("extracts the library to the app's lib folder") != std::string::npos);
  CHECK(error.hints[1].find("resolve --extracted") != std::string::npos);
  entry.name = "classes.dex"; // no library: Android's ways out do not apply
  CHECK(stored(entry).error().hints == std::vector<std::string>{"store it uncompressed: zip -0"});
}

TEST_CASE("compression methods have names, unknown ones numbers") {
  CHECK(compression_name(0) == "stored");
  CHECK(compression_name(8) == "deflated");
  CHECK(compression_name(93) == "zstd");
  CHECK(compression_name(4711) == "method 4711");
}

TEST_CASE("an encrypted entry is refused as encrypted, compressed or not") {
  ZipEntry entry = sound;
  entry.flags = 1;
  CHECK(stored(entry).error().kind == ErrorKind::encrypted);
  entry.method = 8;
  CHECK(stored(entry).error().message == "'lib/x.so' is encrypted: the kernel can only probe bytes "
                                         "stored as they are");
}

TEST_CASE("a stored entry with two sizes is corrupt") {
  ZipEntry entry = sound;
  entry.size = 5;
  CHECK(stored(entry).error().message ==
        "'lib/x.so' is stored, but has 0x4 bytes in the archive and 0x5 extracted");
}

TEST_CASE("a local header that contradicts the directory is corrupt, with both facts") {
  ZipEntry entry = sound;
  entry.local_name = "lib/y.so";
  CHECK(stored(entry).error().message == "'lib/x.so': the local header at 0x0 names 'lib/y.so'");
  entry.local_name = std::string(60000, 'y');
  CHECK(stored(entry).error().kind == ErrorKind::corrupt);
  entry = sound;
  entry.local_size = 3;
  CHECK(stored(entry).error().message == "'lib/x.so': the local header at 0x0 says 0x3 bytes of "
                                         "data, the central directory 0x4");
  entry = sound;
  entry.local_header = 1;
  CHECK(stored(entry).error().message ==
        "'lib/x.so': no local header at 0x1, where the central directory says it is");
  entry.local_header = 42; // where the directory is
  CHECK(stored(entry).error().message == "'lib/x.so': its local header at 0x2a is not in front of "
                                         "the central directory at 0x2a");
  entry.local_header = 0xfffffff0;
  CHECK(stored(entry).error().kind == ErrorKind::corrupt);
}

TEST_CASE("a local name that runs past the file is corrupt") {
  std::string bytes = ZipFile{.entries = {sound}}.bytes();
  bytes.replace(26, 2, "\xff\xff");
  const auto archive = Archive::parse(as_bytes(bytes));
  CHECK(archive->data_offset(*archive->find("lib/x.so")).error().message ==
        "'lib/x.so': the local header at 0x0 names bytes past the end of the file");
}

TEST_CASE("data that reaches into the central directory is corrupt") {
  ZipEntry entry = sound;
  entry.size = entry.compressed = entry.local_size = 5;
  CHECK(stored(entry).error().message ==
        "'lib/x.so': 0x5 bytes of data at 0x26 run into the central directory at 0x2a");
  entry.size = entry.compressed = entry.local_size = 0xfffffffe;
  CHECK(stored(entry).error().kind == ErrorKind::corrupt);
}

TEST_CASE("an entry made up by the caller is checked like any other") {
  const std::string bytes = ZipFile{.entries = {sound}}.bytes();
  const auto archive = Archive::parse(as_bytes(bytes));
  ArchiveEntry entry;
  entry.name = "lib/x.so";
  for (const std::uint64_t offset : {UINT64_MAX, UINT64_MAX - 29, std::uint64_t{92}}) {
    entry.local_header = offset;
    CHECK(archive->data_offset(entry).error().kind == ErrorKind::corrupt);
  }
}

} // namespace uprobectl::archive
