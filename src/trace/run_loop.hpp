// SPDX-License-Identifier: Apache-2.0
// Moves events from their source to the output until the run ends, and then writes the rest. Used
// by attach, usdt attach and task files.
#pragma once

#include "trace/clock_watch.hpp"
#include "trace/event_source.hpp"
#include "trace/event_window.hpp"
#include "trace/trace.hpp"
#include "util/clock.hpp"

#include <signal.h>
#include <span>

namespace uprobectl::trace {

// The longest time between two polls of the buffers. The programs do not wake the reader for each
// record (src/bpf/programs/builtin.bpf.c), and events must be shown within 100 ms.
constexpr std::chrono::milliseconds poll_timeout{40};
// How long the end of a run waits for a reader that reads nothing.
constexpr std::chrono::seconds flush_timeout{5};

// Blocks SIGINT, SIGTERM, SIGHUP, SIGCONT and SIGUSR1, and says on request which have arrived.
class SignalWatch {
public:
  static Result<SignalWatch> start();
  SignalWatch(SignalWatch&& other) noexcept;
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(SignalWatch&&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch(); // restores the signal mask; drops pending signals

  bool arrived();        // true once SIGINT, SIGTERM or SIGHUP has arrived
  std::uint64_t count(); // number of those signals so far
  bool take_continued(); // whether SIGCONT has arrived since the last call
  bool take_reopen();    // the same for SIGUSR1, which asks to open the output again
  int fd() const { return fd_.get(); }

private:
  SignalWatch(UniqueFd fd, const sigset_t& previous) : fd_(std::move(fd)), previous_(previous) {}
  void read_signals();

  UniqueFd fd_;
  sigset_t previous_;
  std::uint64_t count_ = 0;
  bool continued_ = false;
  bool reopens_ = false;
};

// While it exists, a signal of SignalWatch exits the program at once with status 130 and a message.
// Use it around long work without side effects.
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

// What a run loop asks about the target processes.
class TargetProcesses {
public:
  using Time = std::chrono::steady_clock::time_point;

  TargetProcesses() = default;
  TargetProcesses(TargetProcesses&&) = default;
  TargetProcesses& operator=(TargetProcesses&&) = default;
  TargetProcesses(const TargetProcesses&) = delete;
  TargetProcesses& operator=(const TargetProcesses&) = delete;
  virtual ~TargetProcesses() = default;

  // Returns true when the last target process has ended and no other can start. The run then ends
  // when all events were read.
  virtual bool all_gone() = 0;
  // Finds processes that started, were renamed or ended. Called at least each poll_timeout, and
  // when next_look() is due. Returns false to end the run at once.
  virtual bool look(Time now) = 0;
  virtual std::optional<Time> next_look() const = 0;
  // Adds the descriptors that become readable when look() or all_gone() should be called.
  virtual void add_to(std::vector<pollfd>& polled) const = 0;
};

// The events and losses of a run so far.
struct RunTotals {
  std::uint64_t events = 0;      // written, or counted if they are hidden; exact after finish()
  std::vector<Loss> losses = {}; // reported so far
  std::uint64_t lost() const;    // the sum of all losses
};

// Makes the warnings about losses during a run: the first at once, then at most one a minute.
class LossWarnings {
public:
  using Time = std::chrono::steady_clock::time_point;

  // `losses` are the totals so far. Returns the text of a warning; empty if there is none now.
  std::string take(std::span<const Loss> losses, Time now);

private:
  std::uint64_t reported_ = 0;
  Time next_;
};

// Details for the warnings about losses.
struct LossDetails {
  // Returns the hits since the start that --max-rate left out. They are in the warnings, but they
  // are not lost: no `lost` record has them.
  std::function<std::uint64_t()> count_rate_limited = [] { return std::uint64_t{0}; };
  // Returns the functions whose calls were left without a return, in the form of
  // trace::list_unreturned().
  std::function<std::string()> list_unreturned = [] { return std::string(); };
};

// Reads events and writes them until the run ends.
class RunLoop {
public:
  using Time = std::chrono::steady_clock::time_point;
  using Ending = AttachOutcome::Ending;

  // Borrows all but the limits. Without `shows_events`, events are counted but not written.
  RunLoop(EventSource& source, TargetProcesses& processes, SignalWatch& signals,
          output::Output& output, const RunLimits& limits, bool shows_events = true)
      : source_(source), processes_(processes), signals_(signals), output_(output),
        out_(output.buffer()), limits_(limits), shows_events_(shows_events) {}

  // Adds a recorder of this loop, and borrows it. Unlike the recorders of Output it gets only
  // events, losses and clocks, before Output does, and it may exclude an event
  // (Recorder::has_excluded_event()). An error of its flush() is ignored.
  void add_recorder(output::Recorder& recorder) { recorders_.push_back(&recorder); }
  void set_loss_details(LossDetails details) { loss_details_ = std::move(details); }
  // Sets the interval of aggregate reports.
  void set_report_interval(std::optional<std::chrono::nanoseconds> interval) {
    interval_ = interval;
  }
  // Makes events wait in memory for a trigger (EventWindow). Borrows `spec`.
  void keep(const KeepSpec& spec);
  // Runs until the duration has passed since `start`, or until something else ends the run. Calls
  // `meanwhile` at least each poll_timeout.
  Ending run(Time start, const std::function<void(Time)>& meanwhile = {});

  // Reads the waiting events even if the output is blocked. Returns true if more may wait.
  bool drain_even_if_blocked();

  // Writes the events that are left in the buffers, and counts those that cannot be written as
  // lost. Call it when all probes are detached. Gives up if the reader reads nothing for `timeout`,
  // or at another signal.
  void finish(std::chrono::milliseconds timeout = flush_timeout);

  const RunTotals& totals() const { return totals_; }
  // Returns the totals of the window. Events beyond max_events do not count as written.
  std::optional<WindowTotals> window_totals() const {
    if (!window_) return std::nullopt;
    WindowTotals totals = window_->totals();
    totals.written -= beyond_max_;
    totals.beyond_max = beyond_max_;
    return totals;
  }

private:
  bool is_full() const { return limits_.max_events && totals_.events >= *limits_.max_events; }
  bool takes_more() const;
  void take(const events::Event& event);
  void deliver(const events::Event& event);
  bool drain();                      // returns true if more may wait
  std::vector<Loss> report_losses(); // returns the totals
  void report_loss(const Loss& loss);
  std::uint64_t reported_count(std::string_view reason) const;
  void warn_of_losses(std::vector<Loss> losses, Time now);
  void follow_clocks();
  void warn_of_unsubmitted();
  void report_unsubmitted();
  bool wait_for_record(Time until) const;
  std::string_view write_rest(std::chrono::milliseconds timeout, Time until);
  std::uint64_t discard_rest(Time until);
  void wait(std::chrono::milliseconds timeout);

  EventSource& source_;
  TargetProcesses& processes_;
  SignalWatch& signals_;
  output::Output& output_;
  output::OutputBuffer& out_;
  RunLimits limits_;
  std::vector<output::Recorder*> recorders_;
  std::optional<std::chrono::nanoseconds> interval_;
  bool shows_events_;
  RunTotals totals_;
  std::optional<EventWindow> window_;
  std::uint64_t beyond_max_ = 0; // events that a trigger would have written after max_events
  std::uint64_t losses_reported_until_ns_ = clock_ns(CLOCK_MONOTONIC);
  LossWarnings loss_warnings_;
  LossDetails loss_details_;
  std::uint64_t rate_limited_ = 0; // hits, when they were last counted
  Time next_rate_limited_count_;
  ClockWatch clocks_;
};

} // namespace uprobectl::trace
