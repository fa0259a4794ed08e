// SPDX-License-Identifier: Apache-2.0
#include "output/records.hpp"

#include "util/clock.hpp"

#include <array>

namespace uprobectl::output {

std::string_view to_string(events::EventKind kind) {
  constexpr std::array<std::string_view, 5> names = {"entry", "return", "usdt", "record", "wait"};
  return names[static_cast<std::size_t>(kind)];
}
std::string_view to_string(events::ExitKind kind) {
  constexpr std::array<std::string_view, 3> names = {"unknown", "return", "tail_call"};
  return names[static_cast<std::size_t>(kind)];
}
std::string_view to_string(wait_cause cause) {
  constexpr std::array<std::string_view, WAIT_CAUSES> names = {"preempted", "slept", "blocked"};
  return names[static_cast<std::size_t>(cause)];
}

std::string_view to_string(events::CallEnd end) {
  switch (end) {
  case events::CallEnd::returned:
    return "returned";
  case events::CallEnd::no_return_seen:
    return "no_return_seen";
  case events::CallEnd::lost:
    return "lost";
  case events::CallEnd::run_ended:
    break;
  }
  return "run_ended";
}

// The clocks cannot be read at once. If another thread runs between the readings, they are
// repeated.
ClockReading ClockReading::now() {
  constexpr std::uint64_t close_ns = 20'000;
  constexpr int max_readings = 5;
  ClockReading closest;
  std::uint64_t apart_ns = UINT64_MAX;
  for (int i = 0; i < max_readings && apart_ns > close_ns; ++i) {
    const std::uint64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    const ClockReading reading{.monotonic_ns = begin_ns,
                               .boottime_ns = clock_ns(CLOCK_BOOTTIME),
                               .realtime_ns = clock_ns(CLOCK_REALTIME)};
    const std::uint64_t passed_ns = clock_ns(CLOCK_MONOTONIC) - begin_ns;
    if (passed_ns >= apart_ns) continue;
    apart_ns = passed_ns;
    closest = reading;
  }
  return closest;
}

std::string_view missing_frames_label(StackCompleteness completeness) {
  switch (completeness) {
  case StackCompleteness::complete:
    return {};
  case StackCompleteness::truncated:
    return "[truncated]";
  case StackCompleteness::incomplete:
    return "[incomplete]";
  }
  return {};
}

} // namespace uprobectl::output
