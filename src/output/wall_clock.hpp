// CLOCK_MONOTONIC times as the time of day.
#pragma once

#include <cstdint>
#include <string>

namespace uprobectl {

class WallClock {
public:
  // Two clocks read at one instant.
  WallClock(std::uint64_t monotonic_ns, std::uint64_t realtime_ns)
      : difference_(realtime_ns - monotonic_ns) {}

  // Appends local "HH:MM:SS.uuuuuu".
  void append_time(std::string& out, std::uint64_t monotonic_ns);

private:
  std::uint64_t difference_;          // may wrap around, and back again when added
  std::uint64_t second_ = UINT64_MAX; // the one that text_ shows
  char text_[16] = {};
};

} // namespace uprobectl
