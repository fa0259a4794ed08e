// SPDX-License-Identifier: Apache-2.0
// Made hits of a thread.
#pragma once

#include "events/call_tree.hpp"

namespace uprobectl {

// One thread whose clock ticks by 10 ns with each hit.
class Thread {
public:
  Thread(events::CallTree& tree, std::uint32_t tid, std::uint32_t pid = 1) : tree_(tree) {
    event_.pid = pid;
    event_.tid = tid;
  }
  Thread& enter(char probe, std::uint64_t stack_pointer) {
    return hit(events::EventKind::entry, probe, stack_pointer);
  }
  Thread& leave(char probe, std::uint64_t stack_pointer) {
    return hit(events::EventKind::on_return, probe, stack_pointer);
  }
  Thread& lose(std::uint64_t records) {
    event_.lost_before += records;
    return *this;
  }
  // How long the thread has waited before the next hits.
  Thread& waited(std::uint64_t nanoseconds) {
    event_.thread_waited_ns = nanoseconds;
    return *this;
  }
  // The same by cause.
  Thread& waited(const events::WaitCauses& causes) {
    event_.thread_waited_causes_ns = causes;
    return waited(causes[WAIT_PREEMPTED] + causes[WAIT_SLEPT] + causes[WAIT_BLOCKED]);
  }
  // The time of the last hit of any thread, in ns.
  static std::uint64_t now() { return clock; }
  Thread& goroutine(std::uint64_t address) {
    event_.goroutine = address;
    return *this;
  }

private:
  Thread& hit(events::EventKind kind, char probe, std::uint64_t stack_pointer) {
    event_.kind = kind;
    event_.probe = static_cast<std::uint32_t>(probe - 'a');
    event_.stack_pointer = stack_pointer;
    event_.time_ns = clock += 10;
    tree_.take(event_);
    return *this;
  }

  static inline std::uint64_t clock = 0;
  events::CallTree& tree_;
  events::Event event_;
};

} // namespace uprobectl
