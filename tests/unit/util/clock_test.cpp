// SPDX-License-Identifier: Apache-2.0
#include "util/clock.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;

TEST_CASE("the offsets of a time namespace are read as the kernel writes them") {
  // Linux kernel/time/namespace.c, proc_timens_show_offsets(): "%-10s %10lld %9ld\n".
  const std::string_view text = "monotonic        5000         7\n"
                                "boottime        -6000 500000000\n";
  CHECK(parse_clock_offset(text, CLOCK_MONOTONIC) == 5'000'000'000'007);
  CHECK(parse_clock_offset(text, CLOCK_BOOTTIME) == -5'999'500'000'000);
  CHECK(parse_clock_offset(text, CLOCK_REALTIME) == 0);
}

TEST_CASE("text that is not that of a time namespace shifts no clock") {
  for (const std::string_view text :
       {"", "\n", "monotonic", "monotonic 5", "monotonic x 0\n", "monotonic 5 0 0\n",
        "monotonic 5 -1\n", "monotonic 5 1000000000\n", "monotonic 9223372036854775807 0\n",
        "monotonic -9223372036854775808 0\n", "boottime 5 0\n"})
    CHECK(parse_clock_offset(text, CLOCK_MONOTONIC) == 0);
}

TEST_CASE("the clock of std::chrono and the kernel's are converted both ways") {
  const auto now = std::chrono::steady_clock::now();
  CHECK(from_monotonic_ns(to_monotonic_ns(now)) == now);
  const std::uint64_t before = clock_ns(CLOCK_MONOTONIC);
  const std::uint64_t between = to_monotonic_ns(std::chrono::steady_clock::now());
  CHECK(before <= between);
  CHECK(between <= clock_ns(CLOCK_MONOTONIC));
}
