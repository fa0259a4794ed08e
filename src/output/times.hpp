// Nanoseconds for people.
#pragma once

#include "output/records.hpp"

#include <cstdint>
#include <string>

namespace uprobectl {

// "830ns", "12.4us", "3.05ms", "1.2s": at most three digits that count.
void append_short_duration(std::string& out, std::uint64_t nanoseconds);

// CLOCK_MONOTONIC times as the time of day.

class WallClock {
public:
  // Two clocks read at one instant.
  WallClock(std::uint64_t monotonic_ns, std::uint64_t realtime_ns)
      : difference_(realtime_ns - monotonic_ns) {}

  // Appends local "HH:MM:SS.uuuuuu".
  void append_time(std::string& out, std::uint64_t monotonic_ns);

private:
  std::uint64_t difference_;          // may wrap around, and back again when added
  std::uint64_t second_ = UINT64_MAX; // the one that text_ shows
  char text_[16] = {};
};

// Histograms in the forms of the two sinks.

// A head line with the sums, then a bar for each power of two.
void draw_histogram(std::string& out, std::string_view name, const HistogramRecord& record);

// Numbers of the record's unit: "12.4us" where they are nanoseconds.
std::string in_unit(const HistogramRecord& record, std::int64_t number);

// "256:12,512:40": the lower bound of each power of two and how many it has.
std::string bucket_list(const Histogram& histogram);

// [{"low":256,"high":512,"count":12},…]
void append_json_buckets(std::string& out, const Histogram& histogram);

} // namespace uprobectl
