// SPDX-License-Identifier: Apache-2.0
// The kernel's clocks, as numbers.
#pragma once

#include <cstdint>
#include <time.h>

namespace uprobectl {

inline std::uint64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(time.tv_nsec);
}

} // namespace uprobectl
