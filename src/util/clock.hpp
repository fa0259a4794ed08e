// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's clocks.
#pragma once

#include <cstdint>
#include <time.h>

namespace uprobectl {

// Returns the time in nanoseconds since the clock's epoch.
inline std::uint64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(time.tv_nsec);
}

} // namespace uprobectl
