// SPDX-License-Identifier: Apache-2.0
// The interface to what sends the events of a run: the built-in program, a user's programs, or the
// programs of a task file.
#pragma once

#include "events/events.hpp"
#include "output/output.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <poll.h>

namespace uprobectl::trace {

// What the output of a run lacks, with the reason: events, or one of the two hits of a call.
struct Loss {
  std::string_view reason; // a literal; appears in `lost` records
  std::uint64_t count = 0;
};

// The reasons as `lost` records and warnings show them.
namespace loss_reasons {
constexpr std::string_view buffer_full = "ring buffer full";
constexpr std::string_view corrupt = "record could not be decoded";
constexpr std::string_view unsubmitted = "reserved in the ring buffer and never written";
constexpr std::string_view over_max_events = output::over_max_events_reason;
constexpr std::string_view output_blocked = "output is blocked: nothing reads it";
constexpr std::string_view output_closed = "the reader of the output has gone";
constexpr std::string_view output_failed = "the output could not be written";
constexpr std::string_view table_full = "more processes, stacks or values than can be counted";
constexpr std::string_view nested =
    "nested deeper than the 64 calls whose returns the kernel probes";
constexpr std::string_view calls_full =
    "the table of open calls was full of calls that have not returned";
constexpr std::string_view gave_way =
    "given up for newer calls when the table of open calls was full";
constexpr std::string_view hits_at_once = "more hits at the same time than can be recorded";
constexpr std::string_view no_return = "left without a return";
constexpr std::string_view entry_unseen = "returned from a call whose entry was not seen";
constexpr std::string_view undecided = "a value that --if compares could not be read";
constexpr std::string_view unmapped =
    "--if compares the caller, and where its code lies was not known yet";
constexpr std::string_view spans_full =
    "the table of open spans was full of spans that have not ended";
constexpr std::string_view span_keys = "the key of a span could not be read";
constexpr std::string_view interrupted = "interrupted again while the rest was written";

constexpr std::string_view rate_limited = "more hits per second than --max-rate";

// Of paired calls: entries without returns, and returns without entries.
constexpr std::string_view unpaired[] = {nested, calls_full, gave_way, no_return, entry_unseen};
constexpr bool is_unpaired(std::string_view reason) {
  return std::ranges::find(unpaired, reason) != std::end(unpaired);
}
} // namespace loss_reasons

struct SourceState {
  bool has_unfinished_record = false; // drain() stopped at a record that a program is still writing
  // Records that were reserved in a ring buffer for long and are not written. losses() does not
  // have them.
  std::uint64_t unsubmitted = 0;
  bool has_stopped = false; // a hit has ended the run: the programs send no more events
};

// Sends the events of a run, and reports what was lost.
class EventSource {
public:
  using Visit = std::function<bool(const events::Event&)>;

  EventSource() = default;
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;

  // Adds the descriptors that become readable when events wait.
  virtual void add_to(std::vector<pollfd>& polled) const = 0;
  // Visits the events that were sent, in order, until visit returns false. Returns true if more may
  // wait.
  virtual bool drain(const Visit& visit) = 0;
  // Returns the losses since the start by reason, including events that could not be sent. A reason
  // that was returned once stays in the list.
  virtual std::vector<Loss> losses() const = 0;
  virtual SourceState state() const = 0; // after the last drain()
  // Discards all waiting events and returns their number.
  virtual std::uint64_t discard() = 0;
  // Reports what was counted since the last call, if aggregates were requested.
  virtual void report_aggregates(std::chrono::steady_clock::time_point /*now*/) {}
};

} // namespace uprobectl::trace
