// SPDX-License-Identifier: Apache-2.0
#include "debug_fixture.hpp"
#include "elf/xz.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::elf {

using namespace uprobectl::test;

namespace {

// Hard to compress, the same every time (a linear congruential generator).
std::string noise(std::size_t size) {
  std::string text;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < size; ++i)
    text += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

Error error_of(const std::string& data, const XzLimits& limits = {}) {
  const auto result = elf::decode_xz(as_bytes(data), limits);
  REQUIRE_FALSE(result);
  return result.error();
}

} // namespace

TEST_CASE("xz data of each size is decompressed") {
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 300000}) {
    const std::string content = noise(size);
    const auto decoded = elf::decode_xz(as_bytes(xz(content)));
    REQUIRE(decoded);
    CHECK(as_text(*decoded) == content);
  }
  const std::string repeated(500000, 'a');
  CHECK(as_text(*elf::decode_xz(as_bytes(xz(repeated)))) == repeated);
}

TEST_CASE("xz data that is cut anywhere is corrupt") {
  const std::string whole = xz(noise(2000));
  for (std::size_t size = 0; size < whole.size(); size += 7)
    CHECK(error_of(whole.substr(0, size)).kind == ErrorKind::corrupt);
  CHECK(error_of(whole.substr(0, whole.size() / 2)).message == "xz data is truncated");
}

TEST_CASE("xz data with a wrong byte is corrupt") {
  std::string data = xz(noise(2000));
  data[data.size() / 2] ^= 1;
  CHECK(error_of(data).message == "xz data is damaged");
  CHECK(error_of("no xz data at all, but long enough for its header").message == "not xz data");
}

TEST_CASE("xz data that grows without measure is refused before it has grown") {
  const std::string bomb = xz(std::string(64 << 20, '\0'));
  const Error error = error_of(bomb);
  CHECK(error.kind == ErrorKind::unsupported);
  CHECK(error.message.contains("too large when inflated"));
  // A MiB is allowed whatever the ratio.
  CHECK(elf::decode_xz(as_bytes(xz(std::string(1 << 20, '\0'))))->size() == 1 << 20);
}

TEST_CASE("the limit of xz output is exact") {
  const std::string data = xz(std::string(100000, 'x') + noise(100000));
  CHECK(elf::decode_xz(as_bytes(data), {.output = 200000}));
  CHECK(error_of(data, {.output = 199999}).kind == ErrorKind::unsupported);
}

TEST_CASE("xz data that needs a dictionary beyond the memory limit is refused") {
  const Error error = error_of(xz(noise(1000), 9), {.memory = 8 << 20});
  CHECK(error.kind == ErrorKind::unsupported);
  CHECK(error.message == "xz data needs more than 8 MiB to be decompressed");
}

} // namespace uprobectl::elf
