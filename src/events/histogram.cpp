// SPDX-License-Identifier: Apache-2.0
#include "events/histogram.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace uprobectl::events {

namespace {

// Returns the indexes of the first and the last bucket that is not empty.
std::optional<std::pair<std::size_t, std::size_t>> used_buckets(const bpf::Histogram& histogram) {
  std::optional<std::pair<std::size_t, std::size_t>> used;
  for (std::size_t i = 0; i < histogram.buckets.size(); ++i) {
    if (histogram.buckets[i] == 0) continue;
    if (!used) used = {i, i};
    used->second = i;
  }
  return used;
}

} // namespace

HistogramRange bucket_range(std::size_t bucket) {
  if (bucket < 4) return {.low = bucket, .high = bucket + 1};
  const std::size_t power = bucket / 4 + 1;
  const std::uint64_t width = std::uint64_t{1} << (power - 2);
  const std::uint64_t low = (std::uint64_t{1} << power) + bucket % 4 * width;
  return {.low = low, .high = low + width};
}

std::vector<HistogramRange> merge_by_power_of_two(const bpf::Histogram& histogram) {
  std::vector<HistogramRange> ranges;
  const auto used = used_buckets(histogram);
  if (!used) return ranges;
  for (std::size_t i = used->first; i <= used->second; ++i) {
    const std::uint64_t low = std::bit_floor(bucket_range(i).low);
    if (ranges.empty() || ranges.back().low != low)
      ranges.push_back({.low = low, .high = low == 0 ? 1 : low << 1});
    ranges.back().count += histogram.buckets[i];
  }
  return ranges;
}

std::optional<std::int64_t> percentile(const bpf::Histogram& histogram, unsigned percent) {
  if (histogram.count == 0) return 0;
  // Rank of the percentile, counted from 1.
  const std::uint64_t rank = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(
             (static_cast<unsigned __int128>(histogram.count) * percent + 99) / 100));
  if (rank == histogram.count) return histogram.max;
  if (rank <= histogram.negative) {
    const std::int64_t greatest = std::min<std::int64_t>(histogram.max, -1); // of the negative ones
    if (rank > 1 && histogram.min != greatest) return std::nullopt;
    return histogram.min;
  }
  std::uint64_t below = histogram.negative;
  for (std::size_t i = 0; i < histogram.buckets.size(); ++i) {
    const std::uint64_t here = histogram.buckets[i];
    if (below + here < rank) {
      below += here;
      continue;
    }
    const HistogramRange range = bucket_range(i);
    const auto into = static_cast<std::uint64_t>(
        static_cast<unsigned __int128>(range.high - range.low) * (rank - below - 1) / here);
    return std::clamp(static_cast<std::int64_t>(range.low + into), histogram.min, histogram.max);
  }
  return histogram.max;
}

void add_number(bpf::Histogram& to, std::int64_t number) {
  to.min = to.count == 0 ? number : std::min(to.min, number);
  to.max = to.count == 0 ? number : std::max(to.max, number);
  ++to.count;
  to.total += static_cast<std::uint64_t>(number);
  to.buckets.resize(HISTOGRAM_BUCKETS);
  if (number < 0) {
    ++to.negative;
    return;
  }
  std::size_t bucket = static_cast<std::uint64_t>(number);
  if (number >= 4) {
    const auto known = static_cast<std::uint64_t>(number);
    const auto power = static_cast<std::size_t>(std::bit_width(known)) - 1;
    bucket = (power - 1) * 4 + (known >> (power - 2) & 3);
  }
  ++to.buckets[bucket];
}

void add_duration(bpf::Histogram& to, std::uint64_t duration_ns) {
  constexpr std::uint64_t longest = std::numeric_limits<std::int64_t>::max();
  add_number(to, static_cast<std::int64_t>(std::min(duration_ns, longest)));
}

void add(bpf::Histogram& to, const bpf::Histogram& more) {
  if (more.count == 0) return;
  if (to.count == 0) {
    to = more;
    return;
  }
  to.count += more.count;
  to.negative += more.negative;
  to.total += more.total;
  to.min = std::min(to.min, more.min);
  to.max = std::max(to.max, more.max);
  for (std::size_t i = 0; i < to.buckets.size() && i < more.buckets.size(); ++i)
    to.buckets[i] += more.buckets[i];
}

bpf::Histogram subtract(const bpf::Histogram& now, const bpf::Histogram& before) {
  if (before.count == 0) return now;
  bpf::Histogram difference{.count = now.count - before.count,
                            .negative = now.negative - before.negative,
                            .total = now.total - before.total,
                            .buckets = now.buckets};
  for (std::size_t i = 0; i < before.buckets.size(); ++i)
    difference.buckets[i] -= before.buckets[i];
  difference.min = now.min;
  difference.max = now.max;
  const auto used = used_buckets(difference);
  if (!used) {
    difference.max = difference.negative > 0 ? -1 : 0;
    return difference;
  }
  const auto low = static_cast<std::int64_t>(bucket_range(used->first).low);
  const auto last = static_cast<std::int64_t>(bucket_range(used->second).high - 1);
  if (difference.negative == 0) difference.min = std::max(now.min, low);
  difference.max = std::min(now.max, last);
  return difference;
}

} // namespace uprobectl::events
