// Moves events from the payload to the sink until something ends the run.
#pragma once

#include "session/process_choice.hpp"

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
        interval_(request.interval), hides_events_(request.hides_events) {}

  using Time = std::chrono::steady_clock::time_point;

  // Until the deadline (nothing: none) or whatever else comes first. `meanwhile` is called every
  // few tens of milliseconds.
  AttachOutcome::Ending run(std::optional<Time> deadline, SignalWatch& signals,
                            ProcessChoice& processes, const std::function<void(Time)>& meanwhile);

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
            const ProcessChoice& processes);

  Payload& payload_;
  OutputBuffer& out_;
  Sink& sink_;
  std::optional<std::uint64_t> max_events_;
  std::optional<std::chrono::nanoseconds> interval_;
  bool hides_events_;
  PumpState state_;
};

} // namespace uprobectl
