// SPDX-License-Identifier: Apache-2.0
// Counts and latencies of events, as the built-in program counts hits in the kernel.
#pragma once

#include "output/output.hpp"
#include "trace/trace.hpp"

#include <map>

namespace uprobectl {

class EventTotals {
public:
  // Borrows the spec, whose interval is not used. `by_process`: counts each process separately.
  EventTotals(const AggregateSpec& spec, bool by_process) : spec_(spec), by_process_(by_process) {}

  // Events of users' programs belong to no probe and are not counted.
  void add(const Event& event);
  // For calls that were nested: one call, by its entry or exit; how long a call took.
  void count_call(const Event& event) { count(event, false); }
  void measure_call(const ProbePoint& point, std::uint64_t duration_ns);
  // Writes a record for each count, the highest first, then one for each histogram. The times are
  // CLOCK_MONOTONIC.
  void report(std::uint64_t since_ns, std::uint64_t until_ns, Output& output) const;

private:
  struct Key {
    const ProbePoint* point = nullptr; // borrowed
    bool on_return = false;
    std::uint32_t pid = 0; // if processes are counted separately
    auto operator<=>(const Key&) const = default;
  };
  struct Tally {
    std::uint32_t probe = 0; // Event::probe of the first event
    std::uint64_t count = 0;
    std::string comm;
  };

  const ProbePoint* first_place(const ProbePoint& point);
  void count(const Event& event, bool on_return);

  const AggregateSpec& spec_;
  bool by_process_;
  std::map<Key, Tally> tallies_;
  std::map<const ProbePoint*, Histogram> latencies_;
  // The places of a static probe are counted as one.
  std::map<const ProbePoint*, const ProbePoint*> first_places_;
};

} // namespace uprobectl
