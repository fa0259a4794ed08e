// SPDX-License-Identifier: Apache-2.0
// Nests the calls of each thread: entries and returns of functions -> calls that open and close.
#pragma once

#include "events/events.hpp"

namespace uprobectl {

// Why a call is closed.
enum class CallEnd {
  returned,       // one of its exits was hit
  no_return_seen, // a later hit shows that its frame is gone: an exception, longjmp, thread exit
  lost,           // records were lost since its entry, so its return may be among them
  run_ended,      // it had not returned when the run, or its thread, ended
};

// A call that has not returned.
struct OpenCall {
  std::uint64_t id = 0;  // unique in the run, ascending by entry
  std::uint32_t pid = 0; // as in Event
  std::uint32_t tid = 0;
  std::uint32_t probe = 0;           // Event::probe
  const ProbePoint* point = nullptr; // borrowed
  std::uint64_t begin_ns = 0;        // CLOCK_MONOTONIC
  std::uint64_t stack_pointer = 0;   // at the first instruction
  std::uint32_t depth = 0;           // number of open calls around it on its stack
  std::uint64_t children_ns = 0;     // sum of the durations of its direct children that are closed
  std::uint64_t children = 0;        // number of its direct children
};

// Receives calls as they open and close. A call closes after all calls inside it.
class CallVisitor {
public:
  CallVisitor() = default;
  CallVisitor(const CallVisitor&) = delete;
  CallVisitor& operator=(const CallVisitor&) = delete;
  virtual ~CallVisitor() = default;

  virtual void opened(const OpenCall& call, const Event& entry) = 0;
  // `end_ns` is the time of the hit that closed the call. `exit` is null unless it returned.
  virtual void closed(const OpenCall& call, CallEnd end, std::uint64_t end_ns,
                      const Event* exit) = 0;
};

} // namespace uprobectl
