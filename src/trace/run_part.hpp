// SPDX-License-Identifier: Apache-2.0
// The interface to the parts of a run. A part is what one feature adds to the event source: stacks,
// counts, spans and others. The source makes the parts that the request needs, and calls them in
// their order.
#pragma once

#include "trace/event_source.hpp"

#include <functional>
#include <memory>
#include <utility>

namespace uprobectl::trace {

struct StackTotals; // trace/hit_stacks.hpp

// The results of a run besides its events. Each part fills in its own in finish().
struct ProgramResults {
  const StackTotals* stacks = nullptr; // of the requested stacks; null if none were. Borrowed
  // Calls that had not returned when the run, or their process, ended; nullopt if calls are not
  // paired.
  std::optional<std::uint64_t> open_calls = {};
  std::uint64_t without_stack = 0; // counted hits whose stack the kernel could not store
  // Records that were counted instead of shown; nullopt if none are counted.
  std::optional<std::uint64_t> counted_records = {};
  // Why EventSource::losses() may be incomplete; empty if it is complete.
  std::string uncounted_losses = {};
  std::uint64_t unknown_layouts = 0; // records of an unexpected size; they are shown raw
  bool has_started = true; // false if a function was to start the recording, and was not hit
};

class RunPart {
public:
  using Time = std::chrono::steady_clock::time_point; // CLOCK_MONOTONIC

  RunPart() = default;
  RunPart(RunPart&&) = default;
  RunPart& operator=(RunPart&&) = default;
  RunPart(const RunPart&) = delete;
  RunPart& operator=(const RunPart&) = delete;
  virtual ~RunPart() = default;

  // Adds the descriptors that become readable when update() should be called.
  virtual void add_to(std::vector<pollfd>& /*polled*/) const {}
  // Called before records are read.
  virtual void update(Time /*now*/) {}
  // Called when the kernel first counts a stack of the process, so that its mappings are read now.
  virtual void on_new_stack(pid_t /*pid*/) {}
  // Takes the event of a record, and may add to it. Returns false to keep the event from the parts
  // after this one.
  virtual bool take(Bytes /*record*/, events::Event& /*event*/) { return true; }
  // Warns of what the user should know while the run goes on. Called after records were read, until
  // stop().
  virtual void warn() {}
  // Adds the losses of this part since the start, as in EventSource::losses().
  virtual void add_losses(std::vector<Loss>& /*losses*/) const {}
  // Reports what was counted since the last call.
  virtual void report_aggregates(Time /*now*/) {}
  // Called when nothing is recorded any more. Records may still wait to be read.
  virtual void stop() {}
  // Called after the last report_aggregates(): reports what was requested for the end, and sets the
  // results of this part.
  virtual void finish(ProgramResults& /*results*/) {}
};

// The parts of an event source, in their order.
class RunParts {
public:
  template <typename Part, typename... Arguments>
  Part& add(Arguments&&... arguments) {
    auto part = std::make_unique<Part>(std::forward<Arguments>(arguments)...);
    Part& added = *part;
    parts_.push_back(std::move(part));
    return added;
  }
  void add(std::unique_ptr<RunPart> part) { parts_.push_back(std::move(part)); }

  // Calls the function of each part: each(&RunPart::update, now). For take, warn and stop use the
  // functions below.
  template <typename Function, typename... Arguments>
  // NOLINTNEXTLINE(cppcoreguidelines-missing-std-forward): each part gets the same arguments
  void each(Function function, Arguments&&... arguments) const {
    for (const auto& part : parts_) std::invoke(function, *part, arguments...);
  }
  void take(Bytes record, events::Event& event) {
    for (const auto& part : parts_)
      if (!part->take(record, event)) return;
  }
  void warn() const {
    if (!is_stopped_) each(&RunPart::warn);
  }
  void stop() {
    is_stopped_ = true;
    each(&RunPart::stop);
  }

private:
  std::vector<std::unique_ptr<RunPart>> parts_;
  bool is_stopped_ = false;
};

} // namespace uprobectl::trace
