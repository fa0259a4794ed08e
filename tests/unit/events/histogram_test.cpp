// SPDX-License-Identifier: Apache-2.0
#include "events/histogram.hpp"

#include <catch2/catch.hpp>
#include <numeric>

namespace uprobectl::events {

namespace {

// The kernel's histogram of these numbers: buckets as bpf/record.h describes them in words.
bpf::Histogram histogram_of(const std::vector<std::int64_t>& numbers) {
  bpf::Histogram histogram{.count = numbers.size(), .buckets = {}};
  histogram.buckets.resize(HISTOGRAM_BUCKETS);
  histogram.min = *std::ranges::min_element(numbers);
  histogram.max = *std::ranges::max_element(numbers);
  for (const std::int64_t number : numbers) {
    histogram.total += static_cast<std::uint64_t>(number);
    if (number < 0) {
      ++histogram.negative;
      continue;
    }
    std::size_t bucket = 0;
    while (bucket_range(bucket).high <= static_cast<std::uint64_t>(number)) ++bucket;
    ++histogram.buckets[bucket];
  }
  return histogram;
}

} // namespace

TEST_CASE("buckets cover all numbers, four for each power of two") {
  CHECK(bucket_range(0) == HistogramRange{.low = 0, .high = 1});
  CHECK(bucket_range(3) == HistogramRange{.low = 3, .high = 4});
  CHECK(bucket_range(4) == HistogramRange{.low = 4, .high = 5});
  CHECK(bucket_range(8) == HistogramRange{.low = 8, .high = 10});
  CHECK(bucket_range(11) == HistogramRange{.low = 14, .high = 16});
  CHECK(bucket_range(HISTOGRAM_BUCKETS - 1) ==
        HistogramRange{.low = 0xe000000000000000, .high = 0});
  for (std::size_t i = 0; i + 1 < HISTOGRAM_BUCKETS; ++i)
    CHECK(bucket_range(i).high == bucket_range(i + 1).low);
}

TEST_CASE("powers of two go from the first that has numbers to the last") {
  const auto ranges = merge_by_power_of_two(histogram_of({5, 7, 4, 33}));
  CHECK(ranges == std::vector<HistogramRange>{{.low = 4, .high = 8, .count = 3},
                                              {.low = 8, .high = 16, .count = 0},
                                              {.low = 16, .high = 32, .count = 0},
                                              {.low = 32, .high = 64, .count = 1}});
  CHECK(merge_by_power_of_two(histogram_of({0, 0, 1})) ==
        std::vector<HistogramRange>{{.low = 0, .high = 1, .count = 2},
                                    {.low = 1, .high = 2, .count = 1}});
  CHECK(merge_by_power_of_two({}).empty());
}

TEST_CASE("a percentile is within an eighth of the true one") {
  std::vector<std::int64_t> numbers(10000);
  std::iota(numbers.begin(), numbers.end(), 1);
  const bpf::Histogram histogram = histogram_of(numbers);
  CHECK(percentile(histogram, 50).value() == Approx(5000).epsilon(0.125));
  CHECK(percentile(histogram, 99).value() == Approx(9900).epsilon(0.125));
  CHECK(percentile(histogram, 100) <= 10000);
}

TEST_CASE("a percentile among several negative numbers is not known") {
  const auto histogram = histogram_of({-9, -3, -2, 5, 6});
  CHECK(percentile(histogram, 20) == -9);
  CHECK(percentile(histogram, 50) == std::nullopt);
  CHECK(percentile(histogram, 80) == 5);
  CHECK(percentile(histogram, 100) == 6);
  CHECK(percentile(histogram_of({-8, -4, -2}), 50) == std::nullopt);
  CHECK(percentile(histogram_of({-8, -4, -2}), 99) == -2);
  CHECK(percentile(histogram_of({-1, -1, -1, 5}), 50) == -1);
  CHECK(percentile(histogram_of({-7, -7, -7}), 50) == -7);
}

TEST_CASE("percentiles lie between minimum and maximum") {
  CHECK(percentile(histogram_of({1000}), 50) == 1000);
  CHECK(percentile(histogram_of({1000}), 99) == 1000);
  CHECK(percentile({}, 50) == 0);
}

TEST_CASE("an interval has its own minimum and maximum") {
  const bpf::Histogram before = histogram_of({100, 200, 300000});
  bpf::Histogram now = before;
  for (const std::int64_t number : {1000, 1020}) {
    const bpf::Histogram one = histogram_of({number});
    for (std::size_t i = 0; i < now.buckets.size(); ++i) now.buckets[i] += one.buckets[i];
    now.total += static_cast<std::uint64_t>(number);
    ++now.count;
  }
  const bpf::Histogram difference = subtract(now, before);
  CHECK(difference.count == 2);
  CHECK(difference.total == 2020);
  CHECK(difference.min == 896); // of the bucket [896, 1024)
  CHECK(difference.max == 1023);
  CHECK(subtract(now, now).count == 0);
}

TEST_CASE("a number is added to the bucket that has it") {
  const std::vector<std::int64_t> numbers = {
      7, 0, 3, 4, 5, 8, 9, 10, 255, 256, 1023, 1024, 999'999'999, (std::int64_t{1} << 62) + 1};
  bpf::Histogram added;
  for (const std::int64_t number : numbers) add_number(added, number);
  const bpf::Histogram expected = histogram_of(numbers);
  CHECK(added.count == 14);
  CHECK(added.min == 0);
  CHECK(added.max == (std::int64_t{1} << 62) + 1);
  CHECK(added.total == expected.total);
  CHECK(added.buckets == expected.buckets);
}

} // namespace uprobectl::events
