// SPDX-License-Identifier: Apache-2.0
#include "resolve/locate.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::resolve {

namespace {

void put32(std::string& bytes, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift);
}

// A cache with one library, laid out by hand after glibc's dl-cache.h: 48 bytes of header, 24 an
// entry, then "libx.so.1\0/opt/libx.so.1\0" at 72.
std::string one_library(std::uint32_t count = 1, std::uint32_t key = 72) {
  std::string bytes = "glibc-ld.so.cache1.1";
  put32(bytes, count);
  put32(bytes, 25);
  bytes.append(20, '\0');
  put32(bytes, 0x0303);
  put32(bytes, key);
  put32(bytes, 82);
  bytes.append(12, '\0');
  bytes += std::string("libx.so.1\0/opt/libx.so.1\0", 25);
  return bytes;
}

std::vector<std::string> listed(std::string_view cache) {
  std::vector<std::string> lines;
  const auto read = for_each_cached_library(as_bytes(cache), [&](const LoaderCacheEntry& entry) {
    lines.push_back(std::string(entry.name) + " " + std::string(entry.path) + " " +
                    std::to_string(entry.flags));
  });
  if (!read) lines.emplace_back(code(read.error().kind));
  return lines;
}

using Lines = std::vector<std::string>;

} // namespace

TEST_CASE("a loader cache lists names with their files and machines") {
  CHECK(listed(one_library()) == Lines{"libx.so.1 /opt/libx.so.1 771"});
}

TEST_CASE("string offsets of a new table after an old one count from the new table") {
  std::string cache("ld.so-1.7.0\0", 12);
  put32(cache, 1);
  cache.append(12, '\0'); // the old entry
  cache.append(4, '\0');  // up to a multiple of eight
  CHECK(listed(cache + one_library()) == Lines{"libx.so.1 /opt/libx.so.1 771"});
}

TEST_CASE("an entry that points outside is left out, a count that lies is corrupt") {
  CHECK(listed(one_library(1, 4000)).empty());
  CHECK(listed(one_library(2)).size() == 1); // the strings read as a second entry point outside
  CHECK(listed(one_library(UINT32_MAX)) == Lines{"corrupt"});
}

TEST_CASE("other files are rejected as loader cache") {
  CHECK(listed("") == Lines{"not_found"});
  CHECK(listed("glibc-ld.so.cache1.0") == Lines{"not_found"});
  CHECK(listed("glibc-ld.so.cache1.1") == Lines{"corrupt"});
}

} // namespace uprobectl::resolve
