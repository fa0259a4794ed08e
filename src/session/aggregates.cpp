#include "session/sums.hpp"

#include "session/probe_groups.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace uprobectl {

namespace {

std::uint64_t nanoseconds(Sums::Time time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

} // namespace

Sums::Sums(const AttachRequest& request, const BuiltinProgram& program,
           std::span<const ProbePoint> points, StackFiles& files, ProcessNames name_of)
    : request_(request), program_(program), files_(files), points_(points),
      groups_(probe_groups(points)), since_ns_(nanoseconds(Time::clock::now())),
      places_(request.target_options.debug_places), name_of_(std::move(name_of)) {}

std::vector<CountRecord> Sums::counts_by_probe() {
  std::vector<ProbeCounts> now = program_.counts();
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (is_first(groups_, i)) continue;
    now[groups_[i]].entries += std::exchange(now[i].entries, 0);
    now[groups_[i]].returns += std::exchange(now[i].returns, 0);
  }
  counted_.resize(now.size());
  std::vector<CountRecord> records;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::uint64_t entries = now[i].entries - counted_[i].entries;
    const std::uint64_t returns = now[i].returns - counted_[i].returns;
    // Where an entry waits for its return they are one call.
    if (entries > 0 && !request_.inspection.pair_calls)
      records.push_back({.point = &points_[i], .count = entries, .pid = {}, .comm = {}});
    if (returns > 0)
      records.push_back({.point = &points_[i],
                         .on_return = !request_.inspection.pair_calls,
                         .count = returns,
                         .pid = {},
                         .comm = {}});
  }
  counted_ = std::move(now);
  return records;
}

std::vector<CountRecord> Sums::counts_by_process(std::span<const ProcessCount> counted) {
  std::vector<CountRecord> records;
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> known; // by probe and pid
  for (const ProcessCount& each : counted) {
    std::uint64_t& before = by_process_[{each.probe, each.pid}];
    const std::uint64_t count = each.count - std::exchange(before, each.count);
    if (count == 0 || each.probe >= points_.size()) continue;
    const std::size_t first = groups_[each.probe];
    const auto [at, is_new] = known.emplace(std::pair(first, each.pid), records.size());
    if (is_new)
      records.push_back({.point = &points_[first],
                         .on_return = !request_.inspection.on_entry,
                         .count = 0,
                         .pid = each.pid,
                         .comm = each.comm});
    records[at->second].count += count;
  }
  return records;
}

void Sums::tell_histograms(std::uint64_t now_ns, Sink& sink) {
  measured_.resize(points_.size());
  std::vector<HistogramRecord> records;
  std::vector<Histogram> sums(points_.size());
  for (std::uint32_t i = 0; i < points_.size(); ++i) add(sums[groups_[i]], program_.histogram(i));
  for (std::uint32_t i = 0; i < points_.size(); ++i) {
    if (!is_first(groups_, i)) continue;
    Histogram& now = sums[i];
    records.push_back({.point = &points_[i],
                       .in_nanoseconds = request_.inspection.measure_latency,
                       .histogram = since(now, measured_[i]),
                       .since_ns = since_ns_,
                       .time_ns = now_ns,
                       .of_interval = request_.interval.has_value()});
    measured_[i] = std::move(now);
  }
  if (request_.top) {
    const auto more = [](const HistogramRecord& a, const HistogramRecord& b) {
      return a.histogram.count > b.histogram.count;
    };
    std::ranges::sort(records, more);
    if (records.size() > *request_.top) records.resize(*request_.top);
  }
  for (const HistogramRecord& record : records) sink.histogram(record);
}

void Sums::tell(Time now, Sink& sink) {
  const std::uint64_t now_ns = nanoseconds(now);
  if (request_.counts && request_.inspection.count_stacks) {
    tell_stacks(now_ns, sink);
  } else if (request_.counts && request_.inspection.stack == StackWalk::none) {
    std::vector<ProcessCount> counted = request_.inspection.count_by_process
                                            ? program_.process_counts()
                                            : std::vector<ProcessCount>();
    for (ProcessCount& each : counted)
      if (auto name = name_of_(static_cast<pid_t>(each.pid))) each.comm = std::move(*name);
    std::vector<CountRecord> records =
        request_.inspection.count_by_process ? counts_by_process(counted) : counts_by_probe();
    // The most first; of equals what stands first in the request.
    const auto before = [](const CountRecord& a, const CountRecord& b) {
      return std::tuple(b.count, a.point, a.on_return, a.pid) <
             std::tuple(a.count, b.point, b.on_return, b.pid);
    };
    std::ranges::sort(records, before);
    if (request_.top && records.size() > *request_.top) records.resize(*request_.top);
    for (CountRecord& record : records) {
      record.since_ns = since_ns_;
      record.time_ns = now_ns;
      record.of_interval = request_.interval.has_value();
      sink.count(record);
    }
  }
  if (request_.histograms) tell_histograms(now_ns, sink);
  sink.settle();
  since_ns_ = now_ns;
}

} // namespace uprobectl
