// Moves events from the payload to the sink until something ends the run.
#pragma once

#include "session/process_filter.hpp"

#include <signal.h>

namespace uprobectl {

// While it lives SIGINT, SIGTERM and SIGHUP do not kill but wait to be asked for. SIGCONT is noted
// besides what it does anyway.
class SignalWatch {
public:
  static Result<SignalWatch> start();
  SignalWatch(SignalWatch&& other) noexcept;
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(SignalWatch&&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch(); // lets through again what was blocked; signals not asked for are dropped

  bool arrived();        // true once an ending signal has come, from then on
  std::uint64_t count(); // of ending signals so far
  bool continued();      // whether SIGCONT has come since the last call
  int fd() const { return fd_.get(); }

private:
  SignalWatch(UniqueFd fd, const sigset_t& previous) : fd_(std::move(fd)), previous_(previous) {}
  void read_all();

  UniqueFd fd_;
  sigset_t previous_;
  std::uint64_t count_ = 0;
  bool continued_ = false;
};

// While it lives one of the signals of SignalWatch ends the program at once: exit status 130 and a
// message. For what may take long and leaves nothing behind.
class EndsOnSignal {
public:
  EndsOnSignal();
  EndsOnSignal(const EndsOnSignal&) = delete;
  EndsOnSignal& operator=(const EndsOnSignal&) = delete;
  ~EndsOnSignal();

private:
  sigset_t mask_before_{};
  std::vector<std::pair<int, struct sigaction>> actions_before_;
};

// What goes through the pump, and how far it has come.
struct PumpState {
  std::uint64_t events = 0;      // handed to the sink; after finish() those that were written
  std::vector<Loss> losses = {}; // told to the sink so far
  std::uint64_t lost() const;    // the sum of them
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

  // Writes what is still in the buffers, once no probe can add to it, and counts what cannot be
  // written, so that events and losses together are what was sent. A reader that takes nothing for
  // `patience` is given up, as it is when another signal arrives.
  void finish(SignalWatch& signals, const Reporter& reporter,
              std::chrono::milliseconds patience = std::chrono::seconds(5));

  const PumpState& state() const { return state_; }

private:
  bool full() const { return max_events_ && state_.events >= *max_events_; }
  bool takes_more() const;
  bool drain_once(); // true if more may be waiting
  void tell_lost();
  void tell_loss(const Loss& loss);
  std::string_view write_rest(SignalWatch& signals, const Reporter& reporter,
                              std::chrono::milliseconds patience);
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
