// SPDX-License-Identifier: Apache-2.0
#include "trace/clock_watch.hpp"

#include <cstdlib>

namespace uprobectl::trace {

// The kernel changes the speed of the clock by at most 10 % (adjtimex(2): tick), NTP by far less.
std::optional<output::ClockJump> find_clock_jump(const output::ClockReading& before,
                                                 const output::ClockReading& now) {
  constexpr std::int64_t reading_error_ns = 10'000'000;
  const auto passed = static_cast<std::int64_t>(now.monotonic_ns - before.monotonic_ns);
  const std::int64_t realtime = now.drift_since(before);
  const auto suspended = static_cast<std::int64_t>(now.boottime_ns - before.boottime_ns) - passed;
  const std::int64_t slewed = reading_error_ns + passed / 10;
  const bool was_suspended = suspended > reading_error_ns;
  if (!was_suspended && std::abs(realtime) <= slewed) return std::nullopt;
  return output::ClockJump{.realtime_ns = realtime,
                           .suspended_ns =
                               was_suspended ? static_cast<std::uint64_t>(suspended) : 0};
}

std::optional<output::ClockRecord> ClockWatch::look() {
  constexpr std::uint64_t interval_ns = 1'000'000'000;
  output::ClockRecord record{.clocks = read_()};
  const output::ClockReading& now = record.clocks;
  if (last_)
    record.jump = find_clock_jump(*last_, now);
  else
    returned_ns_ = now.monotonic_ns;
  last_ = now;
  if (!record.jump && now.monotonic_ns - returned_ns_ < interval_ns) return std::nullopt;
  returned_ns_ = now.monotonic_ns;
  return record;
}

} // namespace uprobectl::trace
