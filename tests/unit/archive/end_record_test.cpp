// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/archive.hpp"

#include "zip_builder.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::archive {

using namespace uprobectl::test;

namespace {

ZipFile one_entry() { return {.entries = {{.name = "a.so", .data = "DATA"}}}; }

// The offset of the data of "a.so", or the error's code.
std::string data_of_a(const std::string& bytes) {
  const auto archive = Archive::parse(as_bytes(bytes));
  if (!archive) return std::string(code(archive.error().kind));
  const auto entry = archive->find("a.so");
  if (!entry) return std::string(code(entry.error().kind));
  const auto offset = archive->data_offset(*entry);
  if (!offset) return std::string(code(offset.error().kind));
  return std::to_string(offset->value);
}

} // namespace

TEST_CASE("data follows the local header and the name") {
  CHECK(data_of_a(one_entry().bytes()) == "34"); // 30 + "a.so"
}

TEST_CASE("an archive comment may be as long as it can be") {
  ZipFile zip = one_entry();
  for (const std::size_t size : {1u, 100u, 65535u}) {
    zip.comment = std::string(size, 'c');
    CHECK(data_of_a(zip.bytes()) == "34");
  }
}

TEST_CASE("an end record's signature in the comment does not hide the real record") {
  ZipFile zip = one_entry();
  zip.comment = "see PK\5\6 here";
  CHECK(data_of_a(zip.bytes()) == "34");
  zip.comment = "PK\5\6" + std::string(30, '\xff');
  CHECK(data_of_a(zip.bytes()) == "34");
  zip.comment = end_record(0, 3, 200, 4, 0); // whole, ends the file, but no directory at 4
  CHECK(data_of_a(zip.bytes()) == "34");
  zip.comment = end_record(0, 0, 0, 0, 0); // whole, ends the file, empty
  CHECK(data_of_a(zip.bytes()) == "34");
  zip.comment = end_record(7, 1, 46, 38, 0); // another disk's
  CHECK(data_of_a(zip.bytes()) == "34");
}

TEST_CASE("an archive stored inside the archive does not hide the outer one") {
  ZipFile zip;
  zip.entries = {{.name = "inner.zip", .data = one_entry().bytes()},
                 {.name = "a.so", .data = "DATA"}};
  // 39 + inner archive 4+34 + 50 + 22 = 110, then 34 for the second local header and name
  CHECK(data_of_a(zip.bytes()) == "183");
}

TEST_CASE("an archive cut short does not pass for the one stored inside it") {
  ZipFile zip;
  zip.entries = {{.name = "inner.zip", .data = one_entry().bytes()}, {.name = "b", .data = "B"}};
  const std::string bytes = zip.bytes();
  CHECK(data_of_a(bytes.substr(0, bytes.size() - 1)) == "corrupt");
}

TEST_CASE("a signing block between entries and directory is skipped") {
  ZipFile zip = one_entry();
  zip.before_directory = std::string(4096, '\1') + "APK Sig Block 42";
  CHECK(data_of_a(zip.bytes()) == "34");
}

TEST_CASE("bytes between directory and end record are tolerated as Android does") {
  ZipFile zip = one_entry();
  zip.after_directory = std::string(50, 'x'); // as long as the directory's one record
  CHECK(data_of_a(zip.bytes()) == "34");
}

TEST_CASE("recorded offsets are shifted by the size of prepended data") {
  ZipFile zip = one_entry();
  zip.prepended = "#!/bin/sh\n";
  CHECK(data_of_a(zip.bytes()) == "44");
  zip.zip64 = true;
  CHECK(data_of_a(zip.bytes()) == "44");
  zip.prepended = one_entry().bytes() + "PK\1\2"; // looks like an archive itself
  CHECK(data_of_a(zip.bytes()) == std::to_string(38 + 50 + 22 + 4 + 34));
}

TEST_CASE("bytes after the archive are tolerated unless it is shifted too") {
  ZipFile zip = one_entry();
  zip.trailing = "\n\n";
  CHECK(data_of_a(zip.bytes()) == "34");
  zip.prepended = "#!/bin/sh\n";
  CHECK(data_of_a(zip.bytes()) == "corrupt");
}

TEST_CASE("a ZIP64 record is used where the plain one is saturated") {
  ZipFile zip = one_entry();
  zip.zip64 = true;
  CHECK(data_of_a(zip.bytes()) == "34");
  CHECK(Archive::parse(as_bytes(zip.bytes()))->entry_count() == 1);
  zip.count = 1; // only some fields saturated
  zip.directory_size = 50;
  CHECK(data_of_a(zip.bytes()) == "34");
  zip.zip64_tail = std::string(28, '\0'); // version 2 of the record, nothing encrypted
  CHECK(data_of_a(zip.bytes()) == "34");
}

TEST_CASE("a saturated end record without its ZIP64 record is corrupt") {
  ZipFile zip = one_entry();
  zip.directory_offset = 0xffffffff;
  CHECK(data_of_a(zip.bytes()) == "corrupt");
  zip = one_entry();
  zip.zip64 = true;
  std::string bytes = zip.bytes();
  bytes.replace(bytes.find("PK\6\6"), 4, "none");
  CHECK(data_of_a(bytes) == "corrupt");
}

TEST_CASE("exactly 65535 entries need no ZIP64") {
  ZipFile zip;
  zip.entries.assign(65535, {.name = "x", .data = ""});
  const std::string bytes = zip.bytes();
  const auto archive = Archive::parse(as_bytes(bytes));
  REQUIRE(archive);
  CHECK(archive->entry_count() == 65535);
}

TEST_CASE("several disks and encrypted directories are refused by name") {
  ZipFile zip = one_entry();
  zip.disk = 1;
  const std::string split = zip.bytes();
  CHECK(Archive::parse(as_bytes(split)).error().kind == ErrorKind::unsupported);
  zip = one_entry();
  zip.zip64 = true;
  zip.zip64_tail = std::string(18, '\0') + le<std::uint16_t>(0x660e) + std::string(8, '\0');
  const std::string encrypted = zip.bytes();
  CHECK(Archive::parse(as_bytes(encrypted)).error().message ==
        "the central directory is encrypted");
}

TEST_CASE("an empty archive has no entries") {
  const std::string bytes = ZipFile{}.bytes();
  const auto archive = Archive::parse(as_bytes(bytes));
  REQUIRE(archive);
  CHECK(archive->entry_count() == 0);
  CHECK(archive->find("a").error().kind == ErrorKind::not_found);
  CHECK(archive->entry_at({0})->has_value() == false);
}

TEST_CASE("an archive cut anywhere is refused and never misread") {
  ZipFile zip = one_entry();
  zip.comment = "comment";
  const std::string bytes = zip.bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    // Up to the last byte of the end record there is none, then its comment is cut short.
    CHECK(data_of_a(bytes.substr(0, size)) ==
          (size < bytes.size() - 7 ? "not_archive" : "corrupt"));
  }
}

TEST_CASE("a file that is not an archive says why") {
  CHECK(Archive::parse({}).error().message == "not a ZIP archive: the file is empty");
  CHECK(Archive::parse(as_bytes("\x7f"
                                "ELF, surely longer than an end record"))
            .error()
            .message == "not a ZIP archive: no end-of-central-directory record");
  const std::string bytes = one_entry().bytes();
  CHECK(Archive::parse(as_bytes(bytes).first(60)).error().message ==
        "no end-of-central-directory record: the ZIP archive is truncated");
}

TEST_CASE("a directory that cannot be where the end record says is corrupt") {
  ZipFile zip = one_entry();
  zip.directory_offset = 39; // one byte further than it can be
  CHECK(data_of_a(zip.bytes()) == "corrupt");
  zip.directory_offset = 0xfffffff0;
  CHECK(data_of_a(zip.bytes()) == "corrupt");
  zip = one_entry();
  zip.directory_size = 51;
  CHECK(data_of_a(zip.bytes()) == "corrupt");
  zip = one_entry();
  zip.count = 2; // 92 bytes at least
  CHECK(data_of_a(zip.bytes()) == "corrupt");
}

TEST_CASE("an archive is recognised by its first or its last bytes") {
  ZipFile zip = one_entry();
  zip.prepended = "#!/bin/sh\n";
  zip.comment = "c";
  CHECK(Archive::looks_like_archive(as_bytes(zip.bytes())));
  CHECK(Archive::looks_like_archive(as_bytes(ZipFile{}.bytes())));
  CHECK(Archive::looks_like_archive(as_bytes("PK\3\4 cut short")));
  CHECK_FALSE(Archive::looks_like_archive({}));
  CHECK_FALSE(Archive::looks_like_archive(as_bytes("PK")));
  CHECK_FALSE(Archive::looks_like_archive(as_bytes("plain text, not an archive")));
}

} // namespace uprobectl::archive
