#include "session/silence_teller.hpp"

#include "session/probe_groups.hpp"
#include "session/silence.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl {

namespace {

constexpr std::chrono::seconds before_first{2};
constexpr std::chrono::seconds between_tellings{10};

// The mappings of all processes are read for it: at most this share of the time.
constexpr int most_share = 100; // a hundredth

// Of more probes only the first are looked at.
constexpr std::size_t most_told = 20;

} // namespace

SilenceTeller::SilenceTeller(std::span<const ProbePoint> points, std::span<const PlannedSite> sites,
                             const Payload& payload, const ProcessChoice& processes,
                             const Reporter& reporter, Time start)
    : points_(points), sites_(sites), payload_(payload), processes_(processes), reporter_(reporter),
      next_(start + before_first) {}

std::map<std::size_t, std::string> SilenceTeller::reasons() const {
  const std::vector<std::size_t> groups = probe_groups(points_);
  const auto hits = hits_by_probe(groups, payload_.hits(sites_, points_.size()));
  const auto left_out = payload_.explain_left_out(points_.size());
  std::map<std::size_t, std::string> result;
  std::vector<std::size_t> unexplained;
  for (std::size_t i = 0; i < points_.size() && result.size() < most_told; ++i) {
    if (hits[i] != 0 || !is_first(groups, i)) continue;
    result[i] = left_out[i];
    if (left_out[i].empty()) unexplained.push_back(i);
  }
  if (unexplained.empty()) return result;
  const std::vector<pid_t> pids = processes_.known();
  if (pids.empty() && !processes_.is_everybody()) {
    for (const std::size_t i : unexplained) result[i] = processes_.nobody();
    return result;
  }
  std::vector<ProbePoint> points;
  for (const std::size_t i : unexplained) points.push_back(points_[i]);
  const auto surveys = survey_points(points, pids);
  for (std::size_t i = 0; i < points.size(); ++i)
    result[unexplained[i]] = explain_silence(
        surveys[i], pids, {.change = points[i].binary->file->change(), .children = {}});
  return result;
}

void SilenceTeller::tell(Time now) {
  if (!reporter_.is_verbose() || now < next_) return;
  std::map<std::size_t, std::string> found = reasons();
  for (const auto& [point, reason] : found)
    if (const auto before = told_.find(point); before == told_.end() || before->second != reason)
      reporter_.detail(fmt::format("{}: not hit so far: {}", display_name(points_[point]), reason));
  told_ = std::move(found);
  const auto end = std::chrono::steady_clock::now();
  next_ = end + std::max<Time::duration>(between_tellings, (end - now) * most_share);
}

} // namespace uprobectl
