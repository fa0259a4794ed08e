// Moves events from the payload to the sink until something ends the run.
#pragma once

#include "session/payload.hpp"
#include "session/watch.hpp"

namespace uprobectl {

// What goes through the pump, and how far it has come.
struct PumpState {
  std::uint64_t events = 0;
  std::uint64_t lost = 0; // told to the sink so far
};

class Pump {
public:
  Pump(Payload& payload, OutputBuffer& out, Sink& sink, const AttachRequest& request)
      : payload_(payload), out_(out), sink_(sink), max_events_(request.max_events),
        interval_(request.interval) {}

  // Until the deadline (nothing: none) or whatever else comes first.
  AttachOutcome::Ending run(std::optional<std::chrono::steady_clock::time_point> deadline,
                            SignalWatch& signals, ProcessWatch& processes);

  // What is still in the buffers, once no probe can add to it. False if the reader of the output
  // has stalled and not all could be written.
  bool finish();

  const PumpState& state() const { return state_; }

private:
  bool full() const { return max_events_ && state_.events >= *max_events_; }
  bool takes_more() const;
  bool drain_once(); // true if more may be waiting
  void tell_lost();
  void wait(std::chrono::milliseconds timeout, const SignalWatch& signals,
            const ProcessWatch& processes);

  Payload& payload_;
  OutputBuffer& out_;
  Sink& sink_;
  std::optional<std::uint64_t> max_events_;
  std::optional<std::chrono::nanoseconds> interval_;
  PumpState state_;
};

} // namespace uprobectl
