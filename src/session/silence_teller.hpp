// While a run lasts: which probes have not been hit so far, and why (--verbose).
#pragma once

#include "session/process_choice.hpp"

#include <map>

namespace uprobectl {

class SilenceTeller {
public:
  using Time = std::chrono::steady_clock::time_point;

  // All are borrowed.
  SilenceTeller(std::span<const ProbePoint> points, std::span<const PlannedSite> sites,
                const Payload& payload, const ProcessChoice& processes, const Reporter& reporter,
                Time start);

  // Says what is new, now and then; nothing where nobody wants to know.
  void tell(Time now);

private:
  std::map<std::size_t, std::string> reasons() const; // by point

  std::span<const ProbePoint> points_;
  std::span<const PlannedSite> sites_;
  const Payload& payload_;
  const ProcessChoice& processes_;
  const Reporter& reporter_;
  Time next_;
  std::map<std::size_t, std::string> told_;
};

} // namespace uprobectl
