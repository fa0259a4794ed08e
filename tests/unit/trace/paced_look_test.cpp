// SPDX-License-Identifier: Apache-2.0
#include "trace/paced_look.hpp"

#include <catch2/catch.hpp>

namespace uprobectl::trace {

using namespace std::chrono_literals;

namespace {

constexpr PacedLook::Time start{1h};

} // namespace

TEST_CASE("a table is read at first, and then after a second, or 100 ms if it is urgent") {
  PacedLook look;
  CHECK(look.is_due(start, false));
  look.looked(start, start);
  CHECK_FALSE(look.is_due(start + 99ms, true));
  CHECK(look.is_due(start + 100ms, true));
  CHECK_FALSE(look.is_due(start + 999ms, false));
  CHECK(look.is_due(start + 1s, false));
}

TEST_CASE("a table that takes 50 ms to read is read for 1 % of the time, urgently for 10 %") {
  PacedLook look;
  look.looked(start, start + 50ms);
  CHECK_FALSE(look.is_due(start + 549ms, true));
  CHECK(look.is_due(start + 550ms, true));
  CHECK_FALSE(look.is_due(start + 5049ms, false));
  CHECK(look.is_due(start + 5050ms, false));
}

TEST_CASE("what is not urgent is not asked again for 100 ms") {
  PacedLook look;
  look.looked(start, start);
  look.put_off(start + 100ms);
  CHECK_FALSE(look.is_due(start + 199ms, true));
  CHECK(look.is_due(start + 200ms, true));
  CHECK(look.is_due(start + 1s, false));
}

} // namespace uprobectl::trace
