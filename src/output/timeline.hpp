// SPDX-License-Identifier: Apache-2.0
// A timeline of a run's calls, hits and counters, independent of the format of the file.
#pragma once

#include "output/exports.hpp"

namespace uprobectl::output {

// A track of the timeline: a thread; a further stack of a thread, whose calls do not nest with
// those of the first stack; the run itself (tid 0); or the spans of one name in a process, with
// further tracks for those that overlap.
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
  std::span<const values::ValueMember> values = {}; // captured in the traced program
  std::span<const values::ValueMember> times = {};  // durations, measured by uprobectl
  const resolve::ProbePoint* point = nullptr;       // null if it belongs to no function
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
  virtual void add_process(std::string& out, std::uint32_t pid, std::string_view name) = 0;
  virtual void add_thread(std::string& out, const TimelineTrack& track, std::string_view name) = 0;
  virtual void add_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                        std::uint64_t begin_ns, std::uint64_t end_ns) = 0;
  // Add a call in two parts. The values of the second are added to those of the first.
  virtual void begin_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                          std::uint64_t time_ns) = 0;
  virtual void end_call(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                        std::uint64_t time_ns) = 0;
  virtual void add_instant(std::string& out, const TimelineTrack& track, const TimelineItem& item,
                           std::uint64_t time_ns) = 0;
  virtual void add_counter(std::string& out, const TimelineCounter& counter, std::uint64_t time_ns,
                           std::int64_t value) = 0;
  virtual void add_clocks(std::string& /*out*/, const ClockReading& /*clocks*/) {}
  virtual void add_stack(std::string& /*out*/, const StackSample& /*sample*/) {}
  // Adds a histogram of what was measured since the last one of this name.
  virtual void add_histogram(std::string& /*out*/, const TimelineItem& /*measured*/,
                             const HistogramRecord& /*record*/) {}
  // Adds a number of hits or spans, counted since the last one of this name.
  virtual void add_count(std::string& /*out*/, const TimelineItem& /*counted*/,
                         const CountRecord& /*record*/) {}
  // Adds a span that has not ended.
  virtual void add_open_span(std::string& /*out*/, const TimelineItem& /*span*/,
                             std::uint64_t /*begin_ns*/) {}
  virtual void add_span_summary(std::string& /*out*/, const TimelineItem& /*span*/,
                                const SpanSummaryRecord& /*record*/) {}
  // Returns false if the caller must add it as an instant.
  virtual bool add_loss(std::string& /*out*/, const LostRecord& /*lost*/) { return false; }
  virtual void end(std::string& /*out*/, const ExportedEnd& /*end*/) {}
  // Whether the pieces of a file are packets of a Perfetto trace.
  virtual bool takes_packets() const { return false; }
};

Result<std::unique_ptr<Export>> open_timeline(const std::string& path, Workstation& workstation,
                                              std::unique_ptr<TimelineEncoder> encoder);

// Completed calls of one track, to find out which ones nest.
class NestedCalls {
public:
  // Adds the call. Returns false instead if it overlaps another one, and neither is inside the
  // other. Forgets the oldest calls when there are thousands.
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
