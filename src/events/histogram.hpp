// SPDX-License-Identifier: Apache-2.0
// Ranges, percentiles and sums of histograms. The bounds of buckets are those of bpf/record.h.
#pragma once

#include "bpf/builtin.hpp"

#include <optional>

namespace uprobectl::events {

// The numbers in [low, high) and how many were measured.
struct HistogramRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0; // 0 stands for 2^64
  std::uint64_t count = 0;

  bool operator==(const HistogramRange&) const = default;
};

HistogramRange bucket_range(std::size_t bucket); // with a count of 0

// Merges the four buckets of each power of two. Returns the ranges from the first to the last that
// is not empty; 0 has its own range.
std::vector<HistogramRange> merge_by_power_of_two(const bpf::Histogram& histogram);

// Estimates a percentile by interpolating within its bucket, with an error of at most 1/8. Returns
// nullopt if it is one of several negative numbers, which have no buckets, and 0 for an empty
// histogram.
std::optional<std::int64_t> percentile(const bpf::Histogram& histogram, unsigned percent);

// Adds a number. As the built-in program: measure() of bpf/programs/measure.h.
void add_number(bpf::Histogram& to, std::int64_t number);
void add_duration(bpf::Histogram& to, std::uint64_t duration_ns);

// Adds the numbers of `more`.
void add(bpf::Histogram& to, const bpf::Histogram& more);

// Returns the numbers measured after `before`, an earlier snapshot of `now`. min and max are the
// bounds of the used buckets, limited to those of `now`.
bpf::Histogram subtract(const bpf::Histogram& now, const bpf::Histogram& before);

} // namespace uprobectl::events
