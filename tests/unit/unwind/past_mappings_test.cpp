// SPDX-License-Identifier: Apache-2.0
#include "unwind/past_mappings.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

namespace uprobectl::unwind {

namespace {

process::Mapping file(std::uint64_t start, std::uint64_t end, const std::string& path,
                      std::uint64_t inode, std::uint64_t offset = 0) {
  process::Mapping mapping;
  mapping.start = start;
  mapping.end = end;
  mapping.offset = {offset};
  mapping.executable = mapping.readable = true;
  mapping.identity = {1, inode};
  mapping.path = path;
  return mapping;
}

std::string text(const std::vector<process::Mapping>& mappings) {
  std::string text;
  for (const process::Mapping& each : mappings)
    text += fmt::format("{:x}-{:x} {}+{:x};", each.start, each.end, each.path, each.offset.value);
  return text;
}

} // namespace

TEST_CASE("what was recorded later is cut out of what /proc says") {
  const auto past = find_past_mappings({}, {file(0x1000, 0x9000, "/a", 1)},
                                       std::vector{file(0x3000, 0x5000, "/b", 2)});
  CHECK(text(past.mappings) == "1000-3000 /a+0;5000-9000 /a+4000;");
  CHECK(past.unclear.empty());
}

TEST_CASE("a mapping that a later one has replaced is still that of the stack") {
  const std::vector before = {file(0x1000, 0x5000, "/a", 1, 0x100)};
  const auto past = find_past_mappings(before, {file(0x3000, 0x9000, "/b", 2)},
                                       std::vector{file(0x3000, 0x9000, "/b", 2)});
  CHECK(text(past.mappings) == "1000-5000 /a+100;");
  CHECK(text(past.gone) == "1000-5000 /a+100;");
}

TEST_CASE("a mapping that replaced another one at an unknown time is unclear") {
  const std::vector before = {file(0x1000, 0x5000, "/a", 1), file(0x8000, 0x9000, "/c", 3)};
  const auto past = find_past_mappings(
      before, {file(0x3000, 0x7000, "/b", 2), file(0x8000, 0x9000, "/c", 3)}, {});
  CHECK(text(past.mappings) == "1000-3000 /a+0;5000-7000 /b+2000;8000-9000 /c+0;");
  CHECK(text(past.unclear) == "3000-5000 /b+0;");
  CHECK(text(past.gone) == "1000-3000 /a+0;");
}

TEST_CASE("a file that records and /proc name differently is one file") {
  const std::vector before = {file(0x1000, 0x5000, "/layer/lib/a", 7)};
  const auto past = find_past_mappings(before, {file(0x1000, 0x5000, "/lib/a", 1)}, {});
  CHECK(text(past.mappings) == "1000-5000 /lib/a+0;");
  CHECK(past.unclear.empty());
  // The inode of a deleted file is used again.
  process::Mapping other = file(0x1000, 0x5000, "/lib/b", 7);
  other.deleted = true;
  CHECK(text(find_past_mappings(before, {other}, {}).unclear) == "1000-5000 /lib/b+0;");
}

} // namespace uprobectl::unwind
