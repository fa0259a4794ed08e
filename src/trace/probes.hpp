// A static probe may be at many places, which are one to who asks for it: they are placed together,
// and what they count is told as one.
#pragma once

#include "uprobectl/resolve.hpp"

#include <span>
#include <vector>

namespace uprobectl {

// By point, the first point of the same probe of the same file; functions are for themselves.
std::vector<std::size_t> probe_groups(std::span<const ProbePoint> points);

// Whether a point is the first one of its probe.
inline bool is_first(const std::vector<std::size_t>& groups, std::size_t point) {
  return groups[point] == point;
}

struct ProbeTotals {
  std::size_t probes = 0;
  std::size_t static_places = 0; // of static probes
};
ProbeTotals probe_totals(std::span<const ProbePoint> points);

// Of all places together, at the first one of each; nothing where one is not known.
std::vector<std::optional<std::uint64_t>>
hits_by_probe(const std::vector<std::size_t>& groups,
              std::span<const std::optional<std::uint64_t>> hits);

} // namespace uprobectl
