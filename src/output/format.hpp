// SPDX-License-Identifier: Apache-2.0
// Numbers, times, histograms, and names from untrusted files, as text for a terminal or JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace uprobectl {

struct Histogram;
struct HistogramRecord;

// Appends the text with control characters (C0, DEL, C1, changes of direction) and bytes that are
// not UTF-8 as \xNN: a name must not move a terminal's cursor, fake a line or look like another
// name.
void append_printable(std::string& out, std::string_view text);

// The same between quotes, so that it is seen where the text ends: the quote and the backslash are
// escaped with a backslash.
void append_quoted(std::string& out, std::string_view text, char quote);

// Appends the text as the inside of a JSON string (RFC 8259 section 7); invalid
// UTF-8 becomes U+FFFD.
void append_json(std::string& out, std::string_view text);

void append_hex(std::string& out, std::uint64_t value);     // 0x2a
void append_decimal(std::string& out, std::uint64_t value); // 42

// Nanoseconds for people: "830ns", "12.4us", "3.05ms", "1.2s": at most three digits that count.
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

// A head line with the sums, then a bar for each power of two.
void draw_histogram(std::string& out, std::string_view name, const HistogramRecord& record);

// Numbers of the record's unit: "12.4us" where they are nanoseconds.
std::string in_unit(const HistogramRecord& record, std::int64_t number);

// "256:12,512:40": the lower bound of each power of two and how many it has.
std::string bucket_list(const Histogram& histogram);

// [{"low":256,"high":512,"count":12},…]
void append_json_buckets(std::string& out, const Histogram& histogram);

} // namespace uprobectl
