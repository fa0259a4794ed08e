// SPDX-License-Identifier: Apache-2.0
#include "trace/placing.hpp"

#include <catch2/catch.hpp>

using namespace uprobectl;
using namespace std::chrono_literals;

namespace {
constexpr ExpectedTime::Clock::time_point start{};
}

TEST_CASE("the time for all is told once, when the first ones show that it is long") {
  ExpectedTime time(1000, start);
  CHECK_FALSE(time.after(0, start + 5s));
  CHECK_FALSE(time.after(10, start + 99ms)); // too early to tell
  CHECK(time.after(10, start + 100ms) == 10s);
  CHECK_FALSE(time.after(500, start + 9s));
}

TEST_CASE("what is over in two seconds is not announced, unless it becomes slower") {
  ExpectedTime time(1000, start);
  CHECK_FALSE(time.after(50, start + 100ms));
  CHECK_FALSE(time.after(500, start + 1s));
  CHECK(time.after(600, start + 1500ms) == 2500ms);
}
