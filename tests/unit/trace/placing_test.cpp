// SPDX-License-Identifier: Apache-2.0
#include "trace/placing.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::trace {

using namespace std::chrono_literals;

namespace {
constexpr DurationEstimate::Clock::time_point start{};
}

TEST_CASE("a long expected time is reported once, after the first probes") {
  DurationEstimate time(1000, start);
  CHECK_FALSE(time.estimate(0, start + 5s));
  CHECK_FALSE(time.estimate(10, start + 99ms)); // too early to tell
  CHECK(time.estimate(10, start + 100ms) == 10s);
  CHECK_FALSE(time.estimate(500, start + 9s));
}

TEST_CASE("attaching in less than two seconds is not announced, unless it becomes slower") {
  DurationEstimate time(1000, start);
  CHECK_FALSE(time.estimate(50, start + 100ms));
  CHECK_FALSE(time.estimate(500, start + 1s));
  CHECK(time.estimate(600, start + 1500ms) == 2500ms);
}

} // namespace uprobectl::trace
