// SPDX-License-Identifier: Apache-2.0
// Follows the clock of the day while a run goes on: it may be set, and CLOCK_MONOTONIC, which
// events have, stands still while the machine is suspended.
#pragma once

#include "output/records.hpp"

#include <functional>

namespace uprobectl {

// Returns how the time of day has jumped between two readings. nullopt if the kernel may have
// reached it by letting the clock go faster or slower, as for NTP.
std::optional<ClockJump> find_clock_jump(const ClockReading& before, const ClockReading& now);

class ClockWatch {
public:
  explicit ClockWatch(std::function<ClockReading()> read = ClockReading::now)
      : read_(std::move(read)) {}

  // Reads the clocks; call it often. Returns them about once per second, and after each jump.
  std::optional<ClockRecord> look();

private:
  std::function<ClockReading()> read_;
  std::optional<ClockReading> last_;
  std::uint64_t returned_ns_ = 0; // CLOCK_MONOTONIC
};

} // namespace uprobectl
