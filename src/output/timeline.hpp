// SPDX-License-Identifier: Apache-2.0
// A timeline of a run's calls, hits and counters, independent of the format of the file.
#pragma once

#include "output/exports.hpp"

namespace uprobectl::output {

// A thread, or a further stack of it, whose calls do not nest with those of the first. tid 0: the
// run itself. Or the spans of a name in a process, and a further track of those that overlap.
struct TimelineTrack {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::size_t stack = 0;
  std::uint32_t span = 0; // 1 + Span::number; 0: not of spans
};

// The contents of a call or a hit on the timeline. Borrowed.
struct TimelineItem {
  std::string_view name;
  std::string_view category;                        // base name of the probed file
  std::span<const values::ValueMember> values = {}; // of the program that is traced
  std::span<const values::ValueMember> times = {};  // what is known of its time: of us
  const resolve::ProbePoint* point = nullptr;       // null: of no function
  bool is_wait = false;                             // of the call around it
  bool failed = false; // it is known to have failed, or was left without a return
};

struct TimelineCounter {
  std::string_view name;
  std::uint32_t pid = 0; // 0: of the whole run
  bool in_nanoseconds = false;
};

// Encodes the pieces of a file. Each call appends whole pieces to `out`. Times are those of
// CLOCK_MONOTONIC, in any order; calls of one track nest.
class TimelineEncoder {
public:
  TimelineEncoder() = default;
  TimelineEncoder(const TimelineEncoder&) = delete;
  TimelineEncoder& operator=(const TimelineEncoder&) = delete;
  virtual ~TimelineEncoder() = default;

  virtual void begin(std::string& out, const ExportedRun& run) = 0;
  // Names may change later. A process comes before its threads.
  virtual void process(std::string& out, std::uint32_t pid, std::string_view name) = 0;
  virtual void thread(std::string& out, const TimelineTrack& track, std::string_view name) = 0;
  virtual void call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                    std::uint64_t begin_ns, std::uint64_t end_ns) = 0;
  // A call in two parts. The values of the second are added to those of the first.
  virtual void call_begin(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                          std::uint64_t time_ns) = 0;
  virtual void call_end(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                        std::uint64_t time_ns) = 0;
  virtual void instant(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                       std::uint64_t time_ns) = 0;
  virtual void counter(std::string& out, const TimelineCounter& counter, std::uint64_t time_ns,
                       std::int64_t value) = 0;
  virtual void clocks(std::string& /*out*/, const ClockReading& /*clocks*/) {}
  virtual void stack(std::string& /*out*/, const StackSample& /*sample*/) {}
  // Measured since the last call of this name.
  virtual void histogram(std::string& /*out*/, const TimelineItem& /*measured*/,
                         const HistogramRecord& /*record*/) {}
  // Counted since the last call of this name.
  virtual void count(std::string& /*out*/, const TimelineItem& /*counted*/,
                     const CountRecord& /*record*/) {}
  // A span that has not ended.
  virtual void open_span(std::string& /*out*/, const TimelineItem& /*span*/,
                         std::uint64_t /*begin_ns*/) {}
  virtual void spans(std::string& /*out*/, const TimelineItem& /*span*/,
                     const SpanSummaryRecord& /*record*/) {}
  // Returns false if it shall be shown as an instant.
  virtual bool loss(std::string& /*out*/, const LostRecord& /*lost*/) { return false; }
  virtual void end(std::string& /*out*/, const ExportedEnd& /*end*/) {}
  // Whether the pieces of a file are packets of a Perfetto trace.
  virtual bool takes_packets() const { return false; }
};

Result<std::unique_ptr<Export>> open_timeline(const std::string& path, Workstation& workstation,
                                              std::unique_ptr<TimelineEncoder> encoder);

// Completed calls of one track, to find out which ones nest.
class NestedCalls {
public:
  // Adds the call unless it begins, but does not end, inside another one or the reverse; then
  // returns false. Forgets the oldest calls when there are thousands.
  bool add(std::uint64_t begin_ns, std::uint64_t end_ns);

private:
  static constexpr std::size_t max_calls = 2048;
  struct Call {
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
  };
  std::vector<Call> calls_; // the outermost ones, by time
};

// Returns the arguments of the event, or the members of its record.
std::vector<values::ValueMember> argument_values(const events::Event& event);
// Returns its return value, stack and what else was captured.
std::vector<values::ValueMember> other_values(const events::Event& event);

// Texts of events and names are cut to this size.
constexpr std::size_t max_timeline_text = 64 << 10;

} // namespace uprobectl::output
