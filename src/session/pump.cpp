#include "session/pump.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

using Clock = std::chrono::steady_clock;

// The program wakes nobody for a single record (src/bpf/programs/builtin.bpf.c): this often it is
// asked, so that a reader sees an event well within the 100 ms promised.
constexpr std::chrono::milliseconds longest_wait{40};

// A reader that has stopped reading must not make us grow: beyond this the ring is left to fill,
// and what it cannot take is counted as lost.
constexpr std::size_t most_pending_output = 4U << 20;

// How long a reader may take for its next bite after the end.
constexpr std::chrono::seconds patience_with_reader{5};

} // namespace

bool Pump::takes_more() const {
  return !full() && !out_.closed() && !out_.error() && out_.pending() <= most_pending_output;
}

bool Pump::drain_once() {
  if (!takes_more()) return false;
  return payload_.drain([this](const Event& event) {
    if (!hides_events_) sink_.event(event);
    ++state_.events;
    return takes_more();
  });
}

void Pump::tell_lost() {
  const std::uint64_t lost = payload_.lost();
  if (lost == state_.lost) return;
  sink_.lost({.count = lost - state_.lost, .reason = "ring buffer full"});
  state_.lost = lost;
}

void Pump::wait(std::chrono::milliseconds timeout, const SignalWatch& signals,
                const ProcessChoice& processes) {
  // Asked for nothing, a descriptor still tells that its reader is gone.
  const short room = out_.pending() > 0 ? POLLOUT : 0;
  std::vector<pollfd> polled = {{.fd = out_.fd(), .events = room, .revents = 0},
                                {.fd = signals.fd(), .events = POLLIN, .revents = 0}};
  if (takes_more()) payload_.add_to(polled);
  processes.add_to(polled);
  if (::poll(polled.data(), polled.size(), static_cast<int>(timeout.count())) <= 0) return;
  if ((polled[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) out_.abandon();
}

AttachOutcome::Ending Pump::run(std::optional<Time> deadline, SignalWatch& signals,
                                ProcessChoice& processes,
                                const std::function<void(Time)>& meanwhile) {
  using Ending = AttachOutcome::Ending;
  auto next_sums = Clock::now() + interval_.value_or(std::chrono::nanoseconds());
  for (;;) {
    // Asked before draining: what a process did before it ended must still be shown.
    const bool gone = processes.all_gone();
    const bool more = drain_once();
    tell_lost();
    out_.flush_some();
    if (out_.closed() || out_.error()) return Ending::output_closed; // a full disk, for example
    if (full()) return Ending::max_events;
    if (signals.arrived()) return Ending::signal;
    const auto now = Clock::now();
    processes.look(now);
    meanwhile(now);
    if (deadline && now >= *deadline) return Ending::duration;
    if (interval_ && now >= next_sums) {
      payload_.tell_sums(now, sink_);
      out_.flush_some();
      next_sums = std::max(next_sums + *interval_, now);
    }
    if (gone && !more) return Ending::processes_gone;
    if (more) continue;

    auto until = now + longest_wait;
    if (deadline) until = std::min(until, *deadline);
    if (interval_) until = std::min(until, next_sums);
    if (const auto look = processes.next_look()) until = std::clamp(*look, now, until);
    wait(std::chrono::ceil<std::chrono::milliseconds>(until - now), signals, processes);
  }
}

bool Pump::finish() {
  while (drain_once() && out_.flush_within(patience_with_reader)) {
  }
  tell_lost();
  return out_.flush_within(patience_with_reader);
}

} // namespace uprobectl
