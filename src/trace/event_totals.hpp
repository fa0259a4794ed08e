// SPDX-License-Identifier: Apache-2.0
// Counts and latencies of events, as the built-in program counts hits in the kernel.
#pragma once

#include "output/output.hpp"
#include "trace/group_rows.hpp"
#include "trace/trace.hpp"

#include <map>

namespace uprobectl {

class EventTotals {
public:
  // Borrows the specs; the interval is not used. `by_process`: counts each process separately.
  // `groups`: counts by these values instead, which are not stacks.
  EventTotals(const AggregateSpec& spec, bool by_process, const GroupSpec& groups)
      : spec_(spec), by_process_(by_process), groups_(groups), missing_(groups.names()) {}

  // Events of users' programs belong to no probe and are not counted.
  void add(const Event& event);
  // For calls that were nested: one call, by its entry or exit; how long a call took.
  void count_call(const Event& event) { count(event, false); }
  void measure_call(const ProbePoint& point, std::uint64_t duration_ns);
  // Writes a record for each count, the highest first, then one for each histogram. The times are
  // CLOCK_MONOTONIC.
  // Fails with `not_found` if events were counted by a value that none of them has.
  Result<void> report(std::uint64_t since_ns, std::uint64_t until_ns, Output& output) const;

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
  void count_values(const ProbePoint& point, const Event& event, bool on_return);

  const AggregateSpec& spec_;
  bool by_process_;
  const GroupSpec& groups_;
  GroupRows rows_;                                    // if it counts by values
  std::map<const ProbePoint*, std::uint32_t> probes_; // Event::probe of the first event
  std::vector<std::string> missing_;                  // values that no event had
  std::map<Key, Tally> tallies_;
  std::map<const ProbePoint*, Histogram> latencies_;
  // The places of a static probe are counted as one.
  std::map<const ProbePoint*, const ProbePoint*> first_places_;
};

} // namespace uprobectl
