// SPDX-License-Identifier: Apache-2.0
// Formats numbers, times, histograms and untrusted names as text for a terminal or JSON.
#pragma once

#include "events/events.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace uprobectl::bpf {
struct Histogram;
} // namespace uprobectl::bpf

namespace uprobectl::output {

struct ClockJump;
struct ClockReading;
struct CallSummaryRecord;
struct HistogramRecord;

// A number that JSON has as a string, "0x…": offsets, addresses and register values. (A Value::Hex
// is an argument that is shown in hexadecimal.)
struct Hex {
  std::uint64_t value = 0;
};

// Appends the text. Writes control characters (C0, DEL, C1, bidirectional controls) and invalid
// UTF-8 as \xNN, so that a name cannot move the cursor, imitate a line or look like another name.
void append_printable(std::string& out, std::string_view text);
std::string printable(std::string_view text); // the same as a string

// Appends what append_printable() does, in quotes. The quote and the backslash are escaped with a
// backslash.
void append_quoted(std::string& out, std::string_view text, char quote);

// Appends the text as the content of a JSON string (RFC 8259 section 7), without quotes. Invalid
// UTF-8 becomes U+FFFD.
void append_json(std::string& out, std::string_view text);

void append_hex(std::string& out, std::uint64_t value);     // 0x2a
void append_decimal(std::string& out, std::uint64_t value); // 42

// Appends a duration with at most three significant digits: "830ns", "12.4us", "3.05ms", "1.2s".
// From 1000 s on it is in whole seconds.
void append_short_duration(std::string& out, std::uint64_t nanoseconds);
// Returns the parts of a call's waiting, "slept 1.2ms", without those that are 0.
std::vector<std::string> cause_cells(const std::optional<events::WaitCauses>& caused);
// Returns "1.2ms: slept, woken by 'worker' (123)".
std::string wait_text(const events::CallWait& wait);

// Converts CLOCK_MONOTONIC times to the time of day. Each time is converted by the clocks of its
// own instant: times before a later set() keep their time of day.
class WallClock {
public:
  // The arguments are two clocks read at the same instant, here and in set().
  WallClock(std::uint64_t monotonic_ns, std::uint64_t realtime_ns)
      : readings_{{.since_ns = 0, .difference = realtime_ns - monotonic_ns}} {}

  // Takes clocks that were read later. A drift of less than a millisecond changes nothing.
  void set(std::uint64_t monotonic_ns, std::uint64_t realtime_ns);

  // Appends local "HH:MM:SS.uuuuuu".
  void append_time(std::string& out, std::uint64_t monotonic_ns);
  // Returns the local day as the number 20261127.
  std::uint32_t day(std::uint64_t monotonic_ns);

private:
  struct Reading {
    std::uint64_t since_ns = 0;   // CLOCK_MONOTONIC
    std::uint64_t difference = 0; // from then on, modulo 2^64
  };
  std::uint64_t find_time(std::uint64_t monotonic_ns);

  std::vector<Reading> readings_;     // the newest is the last
  std::uint64_t second_ = UINT64_MAX; // the second that text_ and day_ show
  std::uint32_t day_ = 0;
  char text_[16] = {};
};

// Returns "the clock was set forward by 1h 0m: 2026-11-27 01:40:02 became 2026-11-27 02:40:02".
// `clocks` were read after the jump.
std::string describe_jump(const ClockJump& jump, const ClockReading& clocks);

// Appends a line with the totals, then a bar for each power of two.
void draw_histogram(std::string& out, std::string_view name, const HistogramRecord& record);

// Formats a number in the record's unit: "12.4us" for nanoseconds.
std::string format_in_unit(const HistogramRecord& record, std::int64_t number);

// Returns the lower bound and count of each power of two, and "-" for negative values:
// "-:3,256:12,512:40".
std::string bucket_list(const bpf::Histogram& histogram);

// Appends [{"low":256,"high":512,"count":12},…].
void append_json_buckets(std::string& out, const bpf::Histogram& histogram);

// The columns of the table of functions, and the cells of a row. `name`: of the function.
std::vector<std::string_view> summary_columns(const CallSummaryRecord& record);
std::vector<std::string> summary_cells(const CallSummaryRecord& record, std::string name);

} // namespace uprobectl::output
