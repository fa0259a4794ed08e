// SPDX-License-Identifier: Apache-2.0
// Where the events of a run come from: the built-in program, a user's programs, or the programs of
// a task file.
#pragma once

#include "events/events.hpp"
#include "output/output.hpp"

#include <chrono>
#include <functional>
#include <poll.h>

namespace uprobectl {

// Events of a run that are not shown, by reason.
struct Loss {
  std::string_view reason; // a literal, as `lost` records have it
  std::uint64_t count = 0;
};
namespace loss_reasons {
constexpr std::string_view buffer_full = "ring buffer full";
constexpr std::string_view corrupt = "record could not be decoded";
constexpr std::string_view beyond_max_events = "beyond --max-events";
constexpr std::string_view output_blocked = "output is blocked: nothing reads it";
constexpr std::string_view output_closed = "the reader of the output has gone";
constexpr std::string_view output_failed = "the output could not be written";
constexpr std::string_view table_full = "more processes or stacks than can be counted";
constexpr std::string_view nested =
    "nested deeper than the 64 calls whose returns the kernel probes";
constexpr std::string_view calls_full = "more calls were under way than can be remembered";
constexpr std::string_view left = "left without a return";
constexpr std::string_view entry_unseen = "returned from a call whose entry was not seen";
constexpr std::string_view interrupted = "interrupted again while the rest was written";

constexpr std::string_view unpaired[] = {nested, calls_full, left, entry_unseen};
} // namespace loss_reasons

class EventSource {
public:
  using Visit = std::function<bool(const Event&)>;

  EventSource() = default;
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;

  // Descriptors that are readable when events wait.
  virtual void add_to(std::vector<pollfd>& polled) const = 0;
  // Visits what has been sent, in order, until visit returns false. True if some may be left.
  virtual bool drain(const Visit& visit) = 0;
  // Events that were sent and do not come out of drain(), since the start. A reason stays in the
  // list once it is there.
  virtual std::vector<Loss> losses() const = 0;
  // Takes all that has been sent, shows nothing of it and returns how many events it was.
  virtual std::uint64_t discard() = 0;
  // Reports the aggregates that were asked for.
  virtual void report_aggregates(std::chrono::steady_clock::time_point /*now*/) {}
};

} // namespace uprobectl
