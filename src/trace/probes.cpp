#include "trace/probes.hpp"

#include <map>

namespace uprobectl {

std::vector<std::size_t> probe_groups(std::span<const ProbePoint> points) {
  std::map<std::pair<FileIdentity, std::pair<std::uint64_t, std::string_view>>, std::size_t> first;
  std::vector<std::size_t> groups;
  groups.reserve(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const ProbePoint& point = points[i];
    if (!point.static_probe) {
      groups.push_back(i);
      continue;
    }
    const auto [known, is_new] = first.emplace(
        std::pair(point.binary->file->identity(),
                  std::pair(point.binary->entry_data.value, std::string_view(*point.symbol))),
        i);
    groups.push_back(known->second);
  }
  return groups;
}

ProbeTotals probe_totals(std::span<const ProbePoint> points) {
  const std::vector<std::size_t> groups = probe_groups(points);
  ProbeTotals totals;
  for (std::size_t i = 0; i < points.size(); ++i) {
    totals.probes += is_first(groups, i) ? 1 : 0;
    totals.static_places += points[i].static_probe ? 1 : 0;
  }
  return totals;
}

std::vector<std::optional<std::uint64_t>>
hits_by_probe(const std::vector<std::size_t>& groups,
              std::span<const std::optional<std::uint64_t>> hits) {
  std::vector<std::optional<std::uint64_t>> sums(hits.begin(), hits.end());
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (is_first(groups, i)) continue;
    std::optional<std::uint64_t>& sum = sums[groups[i]];
    sum = sum && hits[i] ? std::optional(*sum + *hits[i]) : std::nullopt;
  }
  return sums;
}

} // namespace uprobectl
