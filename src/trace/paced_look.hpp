// SPDX-License-Identifier: Apache-2.0
// Decides when to look again at what takes long to read: for at most 1 % of the time, and 10 %
// while it is urgent.
#pragma once

#include <algorithm>
#include <chrono>

namespace uprobectl::trace {

// Returns when to look again after a look from `begin` to `end`: after the interval, or later, so
// that looking takes at most 1 % of the time.
inline std::chrono::steady_clock::time_point
next_look_after(std::chrono::steady_clock::time_point begin,
                std::chrono::steady_clock::time_point end,
                std::chrono::steady_clock::duration interval) {
  return end + std::max(interval, 100 * (end - begin));
}

class PacedLook {
public:
  using Time = std::chrono::steady_clock::time_point;

  bool is_due(Time now, bool is_urgent) const { return now >= (is_urgent ? next_urgent_ : next_); }
  // Notes that it is not urgent now. is_due(now, true) then returns false for a while, so that the
  // caller need not find out again whether it is urgent.
  void put_off(Time now) { next_urgent_ = now + min_urgent_interval; }
  // Notes that the table was read from `begin` to `end`.
  void looked(Time begin, Time end) {
    const auto took = end - begin;
    next_ = next_look_after(begin, end, min_interval);
    next_urgent_ = end + std::max<Time::duration>(min_urgent_interval, 10 * took);
  }

private:
  static constexpr std::chrono::seconds min_interval{1};
  static constexpr std::chrono::milliseconds min_urgent_interval{100};

  Time next_;
  Time next_urgent_;
};

} // namespace uprobectl::trace
