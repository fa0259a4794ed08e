// SPDX-License-Identifier: Apache-2.0
// Follows the time of day while a run goes on: its clock may be set, and CLOCK_MONOTONIC, which
// events have, stands still while the machine is suspended.
#pragma once

#include "output/records.hpp"

#include <functional>

namespace uprobectl::trace {

// Returns how the time of day has jumped between two readings. Returns nullopt if the kernel may
// only have let the clock go faster or slower, as for NTP.
std::optional<output::ClockJump> find_clock_jump(const output::ClockReading& before,
                                                 const output::ClockReading& now);

class ClockWatch {
public:
  explicit ClockWatch(std::function<output::ClockReading()> read = output::ClockReading::now)
      : read_(std::move(read)) {}

  // Reads the clocks; call it often. Returns them about once per second, and after each jump.
  std::optional<output::ClockRecord> look();

private:
  std::function<output::ClockReading()> read_;
  std::optional<output::ClockReading> last_;
  std::uint64_t returned_ns_ = 0; // CLOCK_MONOTONIC
};

} // namespace uprobectl::trace
