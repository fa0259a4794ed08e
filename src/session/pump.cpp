#include "session/pump.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

using Clock = std::chrono::steady_clock;

// The program wakes nobody for a single record (src/bpf/programs/builtin.bpf.c): this often it is
// asked, so that a reader sees an event well within the 100 ms promised.
constexpr int longest_wait_ms = 40;

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
    sink_.event(event);
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

void Pump::wait(int timeout_ms, const SignalWatch& signals, const ProcessWatch& processes) {
  // Asked for nothing, a descriptor still tells that its reader is gone.
  const short room = out_.pending() > 0 ? POLLOUT : 0;
  std::vector<pollfd> polled = {{.fd = out_.fd(), .events = room, .revents = 0},
                                {.fd = signals.fd(), .events = POLLIN, .revents = 0}};
  if (takes_more()) payload_.add_to(polled);
  processes.add_to(polled);
  if (::poll(polled.data(), polled.size(), timeout_ms) <= 0) return;
  if ((polled[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) out_.abandon();
}

AttachOutcome::Ending Pump::run(std::optional<Clock::time_point> deadline, SignalWatch& signals,
                                ProcessWatch& processes) {
  using Ending = AttachOutcome::Ending;
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
    if (deadline && now >= *deadline) return Ending::duration;
    if (gone && !more) return Ending::processes_gone;
    if (more) continue;

    int timeout = longest_wait_ms;
    if (deadline)
      timeout = static_cast<int>(std::min<std::int64_t>(
          timeout, std::chrono::ceil<std::chrono::milliseconds>(*deadline - now).count()));
    wait(timeout, signals, processes);
  }
}

bool Pump::finish() {
  while (drain_once() && out_.flush_within(patience_with_reader)) {
  }
  tell_lost();
  return out_.flush_within(patience_with_reader);
}

} // namespace uprobectl
