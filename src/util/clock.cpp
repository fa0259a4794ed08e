// SPDX-License-Identifier: Apache-2.0
#include "util/clock.hpp"

#include "util/numbers.hpp"
#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

namespace uprobectl {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

// The file has the offsets of the namespace for new children. It is that of the process itself
// unless this has called unshare(2) or setns(2); then its parent's file has them.
std::string own_offsets() {
  const auto own = read_link("/proc/self/ns/time");
  // Linux include/linux/proc_ns.h: PROC_TIME_INIT_INO, 0xEFFFFFFA. Before Linux 5.6 there are none.
  if (!own || own == "time:[4026531834]") return {};
  for (const std::string& process : {std::string("self"), std::to_string(::getppid())}) {
    if (read_link("/proc/" + process + "/ns/time_for_children") != own) continue;
    std::ifstream file("/proc/" + process + "/timens_offsets");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  return {};
}

// Returns what the time namespace of this process adds to the clock.
std::int64_t own_offset(clockid_t clock) {
  // The time namespace of a process changes in execve() only, or in setns() of a single thread.
  static const std::string offsets = own_offsets();
  static const std::int64_t monotonic = parse_clock_offset(offsets, CLOCK_MONOTONIC);
  static const std::int64_t boottime = parse_clock_offset(offsets, CLOCK_BOOTTIME);
  return clock == CLOCK_MONOTONIC ? monotonic : clock == CLOCK_BOOTTIME ? boottime : 0;
}

} // namespace

std::uint64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec * second_ns + time.tv_nsec - own_offset(clock));
}

std::uint64_t to_monotonic_ns(std::chrono::steady_clock::time_point time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count() -
                                    own_offset(CLOCK_MONOTONIC));
}

std::chrono::steady_clock::time_point from_monotonic_ns(std::uint64_t time_ns) {
  return std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(static_cast<std::int64_t>(time_ns) + own_offset(CLOCK_MONOTONIC)));
}

std::uint64_t to_start_ticks(std::uint64_t field) {
  const std::int64_t tick_ns = second_ns / ::sysconf(_SC_CLK_TCK);
  return field - static_cast<std::uint64_t>(own_offset(CLOCK_BOOTTIME) / tick_ns);
}

// "monotonic           5000         0": seconds, which may be negative, and nanoseconds.
std::int64_t parse_clock_offset(std::string_view text, clockid_t clock) {
  const std::string_view name = clock == CLOCK_MONOTONIC  ? "monotonic"
                                : clock == CLOCK_BOOTTIME ? "boottime"
                                                          : "";
  constexpr std::int64_t max_seconds = INT64_MAX / second_ns - 1;
  const auto skip_blanks = [](std::string_view& line) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  };
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (name.empty() || !line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    skip_blanks(line);
    const auto seconds = take_number<std::int64_t>(line);
    skip_blanks(line);
    const auto nanoseconds = parse_number<std::int64_t>(line);
    if (!seconds || !nanoseconds || *nanoseconds < 0 || *nanoseconds >= second_ns) return 0;
    if (*seconds < -max_seconds || *seconds > max_seconds) return 0;
    return *seconds * second_ns + *nanoseconds;
  }
  return 0;
}

} // namespace uprobectl
