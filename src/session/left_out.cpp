#include "session/left_out.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

std::string times(std::uint64_t count) {
  return count == 1 ? std::string("once") : fmt::format("{} times", count);
}

} // namespace

std::string explain_left_out(const ProbeCounts& counts, const Inspection& inspection) {
  const std::uint64_t shown =
      inspection.pair_calls ? counts.returns : counts.entries + counts.returns;
  if (shown > 0) return {};
  if (counts.left_out > 0) {
    const bool slow_only = inspection.min_latency.count() > 0;
    if (!slow_only)
      return fmt::format("called {}, but --if held for none of them", times(counts.left_out));
    return fmt::format("called {}, but {} for none of them", times(counts.left_out),
                       inspection.conditions.empty() ? "--min-latency was reached"
                                                     : "--if and --min-latency held");
  }
  if (inspection.pair_calls && counts.entries > 0)
    return fmt::format("called {}, but has not returned yet", times(counts.entries));
  if (counts.unpaired > 0)
    return fmt::format("returned {}, from calls that began before it was probed",
                       times(counts.unpaired));
  if (counts.of_others > 0)
    return fmt::format("called {}, but by none of the processes that are probed",
                       times(counts.of_others));
  return {};
}

} // namespace uprobectl
