// SPDX-License-Identifier: Apache-2.0
// Builds ZIP archives in memory for tests, lies included. Every record is written by hand from
// APPNOTE.TXT: no library would write what the tests need.
#pragma once

#include "uprobectl/util.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace uprobectl::test {

// Little-endian bytes of an integer.
template <typename T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

struct ZipEntry {
  std::string name;
  std::string data;
  std::uint16_t method = 0;
  std::uint16_t flags = 0; // in both headers
  std::string local_extra = {};
  std::string central_extra = {};
  // Lies; without them the truth is written.
  std::optional<std::string> local_name = {};
  std::optional<std::uint32_t> local_size = {}; // both sizes of the local header
  std::optional<std::uint32_t> size = {};       // in the directory, as the next two
  std::optional<std::uint32_t> compressed = {};
  std::optional<std::uint32_t> local_header = {};
  std::uint32_t crc = 0x12345678; // in the directory; only extracting looks at it
};

struct ZipFile {
  std::vector<ZipEntry> entries = {};
  std::string prepended = {};        // in front, recorded offsets do not know of it
  std::string before_directory = {}; // an APK signing block
  std::string after_directory = {};  // between directory and end record
  std::string directory_tail = {};   // counted as part of the directory
  std::string comment = {};
  std::string trailing = {}; // after the comment
  std::uint16_t disk = 0;
  std::optional<std::uint16_t> count = {};
  std::optional<std::uint32_t> directory_size = {};
  std::optional<std::uint32_t> directory_offset = {};
  bool zip64 = false;                             // with ZIP64 record and locator, all saturated
  std::optional<std::uint64_t> zip64_record = {}; // the offset in the locator
  std::string zip64_tail = {};                    // more of the ZIP64 record: version 2

  std::string bytes() const;
};

inline std::string local_record(const ZipEntry& entry) {
  const bool descriptor = (entry.flags & 8) != 0;
  const auto size = entry.local_size.value_or(descriptor ? 0 : entry.data.size());
  const std::string name = entry.local_name.value_or(entry.name);
  std::string out = "PK\3\4" + le<std::uint16_t>(20) + le(entry.flags) + le(entry.method);
  out += std::string(4, '\0') + le<std::uint32_t>(descriptor ? 0 : 0x12345678); // time, CRC
  out += le<std::uint32_t>(size) + le<std::uint32_t>(size);
  out += le<std::uint16_t>(name.size()) + le<std::uint16_t>(entry.local_extra.size());
  out += name + entry.local_extra + entry.data;
  if (descriptor)
    out += "PK\7\10" + le<std::uint32_t>(0x12345678) + le<std::uint32_t>(entry.data.size()) +
           le<std::uint32_t>(entry.data.size());
  return out;
}

inline std::string central_record(const ZipEntry& entry, std::uint32_t offset) {
  std::string out = "PK\1\2" + le<std::uint32_t>(0x00140014) + le(entry.flags) + le(entry.method);
  out += std::string(4, '\0') + le(entry.crc);
  out += le<std::uint32_t>(entry.compressed.value_or(entry.data.size()));
  out += le<std::uint32_t>(entry.size.value_or(entry.data.size()));
  out += le<std::uint16_t>(entry.name.size()) + le<std::uint16_t>(entry.central_extra.size());
  out += std::string(10, '\0'); // comment length, disk, attributes
  return out + le<std::uint32_t>(entry.local_header.value_or(offset)) + entry.name +
         entry.central_extra;
}

inline std::string zip64_records(const ZipFile& zip, std::uint64_t offset, std::uint64_t size,
                                 std::uint64_t position) {
  std::string out = "PK\6\6" + le<std::uint64_t>(44 + zip.zip64_tail.size());
  out += le<std::uint32_t>(0x002d002d) + std::string(8, '\0'); // versions, disks
  out += le<std::uint64_t>(zip.entries.size()) + le<std::uint64_t>(zip.entries.size());
  out += le(size) + le(offset) + zip.zip64_tail;
  return out + "PK\6\7" + le<std::uint32_t>(0) + le(zip.zip64_record.value_or(position)) +
         le<std::uint32_t>(1);
}

inline std::string end_record(std::uint16_t disk, std::uint16_t count, std::uint32_t size,
                              std::uint32_t offset, std::uint16_t comment_size) {
  return "PK\5\6" + le(disk) + le(disk) + le(count) + le(count) + le(size) + le(offset) +
         le(comment_size);
}

inline std::string ZipFile::bytes() const {
  std::string body;
  std::string directory;
  for (const ZipEntry& entry : entries) {
    directory += central_record(entry, static_cast<std::uint32_t>(body.size()));
    body += local_record(entry);
  }
  directory += directory_tail;
  body += before_directory;
  const std::size_t offset = body.size();
  body += directory + after_directory;
  if (zip64) body += zip64_records(*this, offset, directory.size(), body.size());
  const auto narrow = [&](auto truth) { return zip64 ? static_cast<decltype(truth)>(-1) : truth; };
  body += end_record(disk, count.value_or(narrow(static_cast<std::uint16_t>(entries.size()))),
                     directory_size.value_or(narrow(static_cast<std::uint32_t>(directory.size()))),
                     directory_offset.value_or(narrow(static_cast<std::uint32_t>(offset))),
                     static_cast<std::uint16_t>(comment.size()));
  return prepended + body + comment + trailing;
}

} // namespace uprobectl::test
