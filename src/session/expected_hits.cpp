#include "session/expected_hits.hpp"

#include "session/counted.hpp"
#include "session/probe_groups.hpp"

namespace uprobectl {

bool check_expected_hits(std::uint64_t expected, std::span<const ProbePoint> points,
                         std::span<const std::optional<std::uint64_t>> by_point, Sink& sink,
                         const Reporter& reporter) {
  bool met = true;
  const std::vector<std::size_t> groups = probe_groups(points);
  const auto hits = hits_by_probe(groups, by_point);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!is_first(groups, i) || (hits[i] && *hits[i] >= expected)) continue;
    met = false;
    const Error error{ErrorKind::not_found,
                      fmt::format("{}: {} where {} {} expected", display_name(points[i]),
                                  hits[i] ? counted(*hits[i], "hit", "hits")
                                          : "it is not known how often it was hit",
                                  expected, expected == 1 ? "is" : "are")};
    reporter.error(error);
    sink.error({.target = points[i].binary->target, .request = points[i].request, .error = error});
  }
  return met;
}

} // namespace uprobectl
