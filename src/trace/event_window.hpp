// SPDX-License-Identifier: Apache-2.0
// Keeps the last events in memory, and passes them on when a trigger is hit (--keep, --until).
#pragma once

#include "output/records.hpp"
#include "trace/trace.hpp"

#include <deque>
#include <functional>
#include <set>

namespace uprobectl::trace {

// The events of a window by what happened to them: all = written + too_old + no_room + beyond_max +
// those that it still keeps.
struct WindowTotals {
  std::uint64_t all = 0;
  std::uint64_t written = 0;
  std::uint64_t too_old = 0;    // no trigger was hit in time
  std::uint64_t no_room = 0;    // given up for newer ones: KeepSpec::max_bytes
  std::uint64_t beyond_max = 0; // near a trigger, but after RunLimits::max_events
  std::uint64_t triggers = 0;
};

// Passes on the events within KeepSpec::time of a trigger, or else the KeepSpec::events events
// before and after it. Each event is passed on once, in the order of take(), where the record of a
// trigger precedes its event. Events of several CPUs may come late by `max_delay`.
class EventWindow {
public:
  using Write = std::function<void(const events::Event&)>;
  using WriteTrigger = std::function<void(const output::TriggerRecord&)>;
  static constexpr std::chrono::nanoseconds max_delay = std::chrono::milliseconds(200);

  EventWindow(const KeepSpec& spec, Write write, WriteTrigger write_trigger)
      : spec_(spec), write_(std::move(write)), write_trigger_(std::move(write_trigger)) {}

  void take(const events::Event& event);
  // Ends the window when the run is over: no later trigger can need the events that are kept.
  void finish();

  const WindowTotals& totals() const { return totals_; }

private:
  // A copy of an event and of what it borrows.
  struct Kept {
    events::Event event;
    std::uint64_t time_ns = 0;
    std::size_t bytes = 0; // about
    unwind::Stack stack = {};
    std::optional<output::StackSample> sample = {};
    std::optional<unwind::Frame> caller = {};
  };
  struct Interval {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  std::uint64_t period_ns() const { return static_cast<std::uint64_t>(spec_.time->count()); }
  bool is_near_trigger(std::uint64_t time_ns) const;
  void trigger(const events::Event& event, std::uint64_t time_ns);
  std::uint64_t write_kept(std::uint64_t time_ns); // returns how many
  bool is_incomplete(std::uint64_t time_ns, std::uint64_t written) const;
  void write(Kept& kept);
  void pass_on(const events::Event& event);
  void keep(const events::Event& event, std::uint64_t time_ns);
  void drop_oldest();
  void make_room();

  const KeepSpec& spec_;
  Write write_;
  WriteTrigger write_trigger_;
  std::deque<Kept> kept_;
  std::size_t bytes_ = 0;
  std::uint64_t newest_ns_ = 0;
  std::uint64_t newest_kept_ns_ = 0; // no event of kept_ is newer
  // With KeepSpec::time: the times around triggers, to which later events may still belong.
  std::vector<Interval> intervals_;
  std::uint64_t rest_ = 0; // with --keep N: how many events are still written after a trigger
  // Events that were dropped because memory was full: the time of the newest, and the number since
  // the last trigger.
  std::optional<std::uint64_t> newest_without_room_ns_;
  std::uint64_t without_room_ = 0;
  std::set<std::string, std::less<>> mapping_names_; // of frames
  WindowTotals totals_;
};

} // namespace uprobectl::trace
