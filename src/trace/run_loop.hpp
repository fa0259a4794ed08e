// SPDX-License-Identifier: Apache-2.0
// Moves events from their source to the output until something ends the run, and writes what is
// left at its end. Every run goes through it: attach, usdt attach and task files.
#pragma once

#include "trace/event_source.hpp"
#include "trace/trace.hpp"

#include <signal.h>

namespace uprobectl {

// The programs wake nobody for a single record (src/bpf/programs/builtin.bpf.c): buffers are looked
// at this often, so that a reader sees an event well within the 100 ms promised.
constexpr std::chrono::milliseconds poll_timeout{40};
// At the end, for a reader that takes nothing.
constexpr std::chrono::seconds flush_timeout{5};

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
  void read_signals();

  UniqueFd fd_;
  sigset_t previous_;
  std::uint64_t count_ = 0;
  bool continued_ = false;
};

// While it lives one of the signals of SignalWatch ends the program at once: exit status 130 and a
// message. For what may take long and leaves nothing behind.
class ExitOnSignal {
public:
  ExitOnSignal();
  ExitOnSignal(const ExitOnSignal&) = delete;
  ExitOnSignal& operator=(const ExitOnSignal&) = delete;
  ~ExitOnSignal();

private:
  sigset_t mask_before_{};
  std::vector<std::pair<int, struct sigaction>> actions_before_;
};

// The processes of a run, as its loop needs them.
class TargetProcesses {
public:
  using Time = std::chrono::steady_clock::time_point;

  TargetProcesses() = default;
  TargetProcesses(TargetProcesses&&) = default;
  TargetProcesses& operator=(TargetProcesses&&) = default;
  TargetProcesses(const TargetProcesses&) = delete;
  TargetProcesses& operator=(const TargetProcesses&) = delete;
  virtual ~TargetProcesses() = default;

  // The last one has ended that there can be: the run ends when all events have been taken. Always
  // false if others may come.
  virtual bool all_gone() = 0;
  // Looks for processes that have begun, been renamed or ended. Called at least each poll_timeout,
  // and when next_look() is due. False ends the run at once.
  virtual bool look(Time now) = 0;
  virtual std::optional<Time> next_look() const = 0;
  // Descriptors that are readable when look() or all_gone() should be called.
  virtual void add_to(std::vector<pollfd>& polled) const = 0;
};

// How far a run has come.
struct RunTotals {
  std::uint64_t events = 0;      // written; after finish() those that were written
  std::vector<Loss> losses = {}; // reported so far
  std::uint64_t lost() const;    // the sum of them
};

class RunLoop {
public:
  using Time = std::chrono::steady_clock::time_point;
  using Ending = AttachOutcome::Ending;

  // Borrows all but the limits. Without `shows_events` they are only counted.
  RunLoop(EventSource& source, TargetProcesses& processes, SignalWatch& signals, Output& output,
          const RunLimits& limits, bool shows_events = true)
      : source_(source), processes_(processes), signals_(signals), output_(output),
        out_(output.buffer()), limits_(limits), shows_events_(shows_events) {}

  // Reports aggregates each time this has passed.
  void report_every(std::optional<std::chrono::nanoseconds> interval) { interval_ = interval; }
  // Until the duration is over (counted from `start`) or whatever else ends it first. `meanwhile`
  // is called at least each poll_timeout.
  Ending run(Time start, const std::function<void(Time)>& meanwhile = {});

  // Takes what waits even if the output is blocked. True if more may wait.
  bool drain_even_if_blocked();

  // Writes what is still in the buffers, once no probe can add to it, and counts what cannot be
  // written, so that events and losses together are what was sent. Gives up when the reader takes
  // nothing for so long, or another signal arrives.
  void finish(std::chrono::milliseconds timeout = flush_timeout);

  const RunTotals& totals() const { return totals_; }

private:
  bool is_full() const { return limits_.max_events && totals_.events >= *limits_.max_events; }
  bool takes_more() const;
  void show(const Event& event);
  bool drain(); // true if more may wait
  void report_losses();
  void report_loss(const Loss& loss);
  std::string_view write_rest(std::chrono::milliseconds timeout);
  void wait(std::chrono::milliseconds timeout);

  EventSource& source_;
  TargetProcesses& processes_;
  SignalWatch& signals_;
  Output& output_;
  OutputBuffer& out_;
  RunLimits limits_;
  std::optional<std::chrono::nanoseconds> interval_;
  bool shows_events_;
  RunTotals totals_;
};

} // namespace uprobectl
