// SPDX-License-Identifier: Apache-2.0
// What the buckets of a histogram tell. Their bounds are those of bpf/record.h.
#pragma once

#include "bpf/builtin.hpp"

namespace uprobectl {

// Numbers from `low` up to, but without, `high`.
struct HistogramRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0; // 2^64 reads 0
  std::uint64_t count = 0;

  bool operator==(const HistogramRange&) const = default;
};

HistogramRange bucket_range(std::size_t bucket); // its count is 0

// By powers of two, from the first that has numbers to the last; 0 is a range of its own.
std::vector<HistogramRange> merge_by_power_of_two(const Histogram& histogram);

// The number that so many of a hundred do not exceed, from where it lies between the bounds of its
// bucket, and so within an eighth of it: of negative ones the least. Nothing is measured: 0.
std::int64_t percentile(const Histogram& histogram, unsigned percent);

// The numbers of both together.
void add(Histogram& to, const Histogram& more);

// What came since; its extremes are the bounds of its buckets, as far as the whole reaches.
Histogram subtract(const Histogram& now, const Histogram& before);

} // namespace uprobectl
