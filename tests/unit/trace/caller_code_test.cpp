// SPDX-License-Identifier: Apache-2.0
#include "trace/caller_code.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::trace {

namespace {

// The bits that the program finds at an address: those of the last boundary that is not above it.
std::uint64_t bits_at(const caller_map& map, std::uint64_t address) {
  std::uint64_t found = 0;
  for (const record_u64 each : map.boundaries)
    if (each <= (address << 8 | 0xff)) found = each & 0xff;
  return found;
}

} // namespace

TEST_CASE("a caller map says where the code of functions and modules is mapped") {
  // 0x1000 bytes from offset 0x2000 of a file, and a neighbour without code.
  const CallerMapping mapped[] = {{.start = 0x7000,
                                   .end = 0x8000,
                                   .offset = 0x2000,
                                   .code = {{0x2100, 0x2180, 1},
                                            {0x2170, 0x2200, 2},
                                            {0x1000, 0x2010, 4},
                                            {0x2ff0, 0x9000, 4},
                                            {0x9000, 0x9100, 1}}},
                                  {.start = 0x8000, .end = 0x9000, .offset = 0, .code = {}}};
  const auto map = make_caller_map(mapped);
  REQUIRE(map);
  CHECK(map->boundaries[0] == 0);
  CHECK(map->boundaries[1] == (0x7000 << 8 | CALLER_MAPPED | 4));
  CHECK(map->boundaries[CALLER_BOUNDARIES - 1] == ~record_u64{0});
  CHECK(bits_at(*map, 0x6fff) == 0);
  CHECK(bits_at(*map, 0x700f) == (CALLER_MAPPED | 4));
  CHECK(bits_at(*map, 0x7010) == CALLER_MAPPED);
  CHECK(bits_at(*map, 0x7100) == (CALLER_MAPPED | 1));
  CHECK(bits_at(*map, 0x717f) == (CALLER_MAPPED | 3));
  CHECK(bits_at(*map, 0x7180) == (CALLER_MAPPED | 2));
  CHECK(bits_at(*map, 0x7200) == CALLER_MAPPED);
  CHECK(bits_at(*map, 0x7ff0) == (CALLER_MAPPED | 4));
  CHECK(bits_at(*map, 0x8000) == CALLER_MAPPED);
  CHECK(bits_at(*map, 0x9000) == 0);
}

TEST_CASE("mappings without code between them are one in a caller map") {
  std::vector<CallerMapping> mapped;
  for (std::uint64_t i = 0; i < 2 * CALLER_BOUNDARIES; ++i)
    mapped.push_back({.start = 0x1000 * i + 0x1000, .end = 0x1000 * i + 0x2000});
  REQUIRE(make_caller_map(mapped));
  CHECK(bits_at(*make_caller_map(mapped), 0x1234) == CALLER_MAPPED);
  // With gaps, each has a beginning and an end.
  mapped.clear();
  for (std::uint64_t i = 0; i < CALLER_BOUNDARIES / 2 - 1; ++i)
    mapped.push_back({.start = 0x2000 * i + 0x1000, .end = 0x2000 * i + 0x2000});
  CHECK(make_caller_map(mapped));
  mapped.push_back({.start = 0x1000'0000, .end = 0x1000'1000});
  CHECK_FALSE(make_caller_map(mapped));
}

TEST_CASE("memory of the kernel is not in a caller map") {
  const CallerMapping vsyscall[] = {{.start = 0xffff'ffff'ff60'0000, .end = 0xffff'ffff'ff60'1000}};
  const auto map = make_caller_map(vsyscall);
  REQUIRE(map);
  CHECK(map->boundaries[1] == ~record_u64{0});
}

} // namespace uprobectl::trace
