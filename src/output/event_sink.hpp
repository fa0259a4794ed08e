// SPDX-License-Identifier: Apache-2.0
// The interface to what receives the events of a run besides its output: exports, saved runs.
#pragma once

#include "output/records.hpp"

namespace uprobectl {

// Receives the events of a run in the order in which they were read: that of each CPU, not that of
// Event::time_ns.
class EventSink {
public:
  EventSink() = default;
  EventSink(const EventSink&) = delete;
  EventSink& operator=(const EventSink&) = delete;
  virtual ~EventSink() = default;

  // The event, and what it borrows, is valid until the call returns.
  virtual void take(const Event& event) = 0;
  // Whether the last event belongs to a call that was left out, so that it is not one of the run.
  virtual bool leaves_out() const { return false; }
  // Events were lost since the last call.
  virtual void take(const LostRecord& lost) = 0;
  // The clocks were read: about once per second, and after each jump.
  virtual void note_clocks(const ClockReading& /*clocks*/) {}
  // Called at least each poll_timeout while the run lasts. `now_ns`: CLOCK_MONOTONIC.
  virtual void advance(std::uint64_t /*now_ns*/) {}
};

} // namespace uprobectl
