// SPDX-License-Identifier: Apache-2.0
#include "output/format.hpp"

#include "output/json_record.hpp"
#include "output/records.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fmt/format.h>

namespace uprobectl::output {

namespace {

unsigned char byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

constexpr char hex_digits[] = "0123456789abcdef";

void append_byte(std::string& out, std::string_view prefix, unsigned char byte) {
  out += prefix;
  out += hex_digits[byte >> 4];
  out += hex_digits[byte & 0xf];
}

// Marks the bytes that are not escaped: printable ASCII except the special ones.
constexpr std::array<bool, 256> plain_bytes(std::string_view special) {
  std::array<bool, 256> plain = {};
  for (unsigned byte = 0x20; byte < 0x7f; ++byte)
    plain[byte] = !special.contains(static_cast<char>(byte));
  return plain;
}
constexpr auto plain_in_text = plain_bytes("");
constexpr auto plain_in_json = plain_bytes("\"\\");

// Bytes that are compared at once. The vector extension of GCC and clang.
using Block = unsigned char __attribute__((vector_size(16)));

bool all_plain(const char* from, bool json) {
  Block block;
  std::memcpy(&block, from, sizeof(block));
  Block special = (block - 0x20) > 0x7e - 0x20; // wraps around below the space
  if (json) special |= (block == '"') | (block == '\\');
  const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(special);
  return (words[0] | words[1]) == 0;
}

// Returns the end of the run of plain bytes from `at`. Nearly all text is one run.
std::size_t end_of_run(std::string_view text, std::size_t at, bool json) {
  while (text.size() - at >= sizeof(Block) && all_plain(text.data() + at, json))
    at += sizeof(Block);
  const auto& plain = json ? plain_in_json : plain_in_text;
  while (at < text.size() && plain[byte_at(text, at)]) ++at;
  return at;
}

void append_json_ascii(std::string& out, char c) {
  switch (c) {
  case '"':
    out += "\\\"";
    return;
  case '\\':
    out += "\\\\";
    return;
  case '\n':
    out += "\\n";
    return;
  case '\t':
    out += "\\t";
    return;
  default:
    append_byte(out, "\\u00", static_cast<unsigned char>(c));
  }
}

// Appends \uNNNN for a character of two or three bytes (RFC 3629).
void append_json_escape(std::string& out, std::string_view character) {
  unsigned number = byte_at(character, 0) & (character.size() == 2 ? 0x1fU : 0x0fU);
  for (std::size_t i = 1; i < character.size(); ++i)
    number = number << 6U | (byte_at(character, i) & 0x3fU);
  append_byte(out, "\\u", static_cast<unsigned char>(number >> 8U));
  append_byte(out, "", static_cast<unsigned char>(number));
}

constexpr std::size_t bar_width = 40;

std::string format_bound(const HistogramRecord& record, std::uint64_t number) {
  std::string text;
  if (record.in_nanoseconds)
    append_short_duration(text, number);
  else
    append_decimal(text, number);
  return text;
}

// Appends a duration of up to days, rounded to the smaller of its two units: "1h 30m", "12.4s".
void append_long_duration(std::string& out, std::uint64_t nanoseconds) {
  const std::uint64_t seconds = (nanoseconds + 500'000'000) / 1'000'000'000;
  const std::uint64_t minutes = (seconds + 30) / 60;
  const std::uint64_t hours = (minutes + 30) / 60;
  if (seconds < 60)
    append_short_duration(out, nanoseconds);
  else if (minutes < 60)
    out += fmt::format("{}m {}s", seconds / 60, seconds % 60);
  else if (hours < 24)
    out += fmt::format("{}h {}m", minutes / 60, minutes % 60);
  else
    out += fmt::format("{}d {}h", hours / 24, hours % 24);
}

} // namespace

void append_printable(std::string& out, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_run(text, at, false);
    out += text.substr(at, end - at);
    at = end;
    if (at == text.size()) return;
    const std::size_t known = utf8_length(text, at);
    const std::string_view character = text.substr(at, std::max<std::size_t>(known, 1));
    if (known == 0 || is_control_character(character))
      for (std::size_t i = 0; i < character.size(); ++i)
        append_byte(out, "\\x", byte_at(character, i));
    else
      out += character;
    at += character.size();
  }
}

std::string printable(std::string_view text) {
  std::string shown;
  append_printable(shown, text);
  return shown;
}

void append_quoted(std::string& out, std::string_view text, char quote) {
  out += quote;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end =
        std::min(text.find_first_of(std::array{quote, '\\', '\0'}.data(), at), text.size());
    append_printable(out, text.substr(at, end - at));
    if (end < text.size()) out += {'\\', text[end]};
    at = end + 1;
  }
  out += quote;
}

void append_json(std::string& out, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_run(text, at, true);
    out += text.substr(at, end - at);
    at = end;
    if (at == text.size()) return;
    const std::size_t length = utf8_length(text, at);
    if (length == 1)
      append_json_ascii(out, text[at]);
    else if (length > 1 && is_control_character(text.substr(at, length)))
      append_json_escape(out, text.substr(at, length));
    else
      out += length == 0 ? "\xef\xbf\xbd" : text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
}

void append_hex(std::string& out, std::uint64_t value) {
  char digits[18] = {'0', 'x'};
  const auto end = std::to_chars(digits + 2, std::end(digits), value, 16).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

void append_decimal(std::string& out, std::uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

void append_short_duration(std::string& out, std::uint64_t nanoseconds) {
  if (nanoseconds < 1000) {
    append_decimal(out, nanoseconds);
    out += "ns";
    return;
  }
  constexpr std::array<std::string_view, 3> units = {"us", "ms", "s"};
  double value = static_cast<double>(nanoseconds) / 1000;
  std::size_t unit = 0;
  // 999.5 would be rounded to 1000, so it uses the next unit.
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::string digits = fmt::format("{:.{}f}", value, decimals);
  while (decimals > 0 && digits.ends_with('0')) digits.pop_back();
  if (digits.ends_with('.')) digits.pop_back();
  out += digits;
  out += units[unit];
}

void WallClock::set(std::uint64_t monotonic_ns, std::uint64_t realtime_ns) {
  // Events of earlier times may still wait in buffers.
  constexpr std::size_t max_readings = 64;
  const std::uint64_t difference = realtime_ns - monotonic_ns;
  const auto change = static_cast<std::int64_t>(difference - readings_.back().difference);
  if (std::abs(change) < min_drift_ns) return;
  if (readings_.size() == max_readings) readings_.erase(readings_.begin());
  readings_.push_back({.since_ns = monotonic_ns, .difference = difference});
}

// Returns CLOCK_REALTIME, and sets text_ and day_. Conversion to local time is expensive, and many
// events are in the same second.
std::uint64_t WallClock::find_time(std::uint64_t monotonic_ns) {
  constexpr std::uint64_t second_ns = 1'000'000'000;
  auto reading = readings_.end() - 1;
  while (reading != readings_.begin() && reading->since_ns > monotonic_ns) --reading;
  const std::uint64_t wall = monotonic_ns + reading->difference;
  if (wall / second_ns == second_) return wall;
  second_ = wall / second_ns;
  const auto seconds = static_cast<std::time_t>(second_);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::strftime(text_, sizeof(text_), "%H:%M:%S", &local);
  day_ = static_cast<std::uint32_t>((local.tm_year + 1900) * 10000 + (local.tm_mon + 1) * 100 +
                                    local.tm_mday);
  return wall;
}

std::uint32_t WallClock::day(std::uint64_t monotonic_ns) {
  find_time(monotonic_ns);
  return day_;
}

void WallClock::append_time(std::string& out, std::uint64_t monotonic_ns) {
  constexpr std::uint64_t second_ns = 1'000'000'000;
  const std::string micros = std::to_string(find_time(monotonic_ns) % second_ns / 1000);
  out += text_;
  out += '.';
  out.append(6 - micros.size(), '0');
  out += micros;
}

std::string describe_jump(const ClockJump& jump, const ClockReading& clocks) {
  const auto time_of_day = [&](std::uint64_t realtime_ns) {
    const auto seconds = static_cast<std::time_t>(realtime_ns / 1'000'000'000);
    std::tm local{};
    localtime_r(&seconds, &local);
    char text[32] = {};
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
    return std::string(text);
  };
  const auto size = static_cast<std::uint64_t>(std::abs(jump.realtime_ns));
  const std::uint64_t set_ns =
      static_cast<std::uint64_t>(jump.realtime_ns) - jump.suspended_ns; // modulo 2^64
  std::string text;
  if (jump.suspended_ns != 0) {
    text = "the machine was suspended for ";
    append_long_duration(text, jump.suspended_ns);
    // Both happen at once if the clock was wrong meanwhile.
    constexpr std::uint64_t second_ns = 1'000'000'000;
    if (set_ns + second_ns > 2 * second_ns) text += ", and the clock was set";
  } else {
    text = jump.realtime_ns < 0 ? "the clock was set back by " : "the clock was set forward by ";
    append_long_duration(text, size);
  }
  return text +
         fmt::format(": {} became {}",
                     time_of_day(clocks.realtime_ns - static_cast<std::uint64_t>(jump.realtime_ns)),
                     time_of_day(clocks.realtime_ns));
}

std::string format_in_unit(const HistogramRecord& record, std::int64_t number) {
  if (record.in_nanoseconds && number >= 0)
    return format_bound(record, static_cast<std::uint64_t>(number));
  return std::to_string(number);
}

void draw_histogram(std::string& out, std::string_view name, const HistogramRecord& record) {
  const bpf::Histogram& histogram = record.histogram;
  append_printable(out, name);
  fmt::format_to(std::back_inserter(out), ": {} {}", histogram.count,
                 record.in_nanoseconds ? "calls" : "values");
  const auto percentile = [&](unsigned percent) {
    const auto number = events::percentile(histogram, percent);
    return number ? format_in_unit(record, *number) : "below 0";
  };
  if (histogram.count > 0)
    fmt::format_to(std::back_inserter(out), ", min {}, p50 {}, p99 {}, max {}",
                   format_in_unit(record, histogram.min), percentile(50), percentile(99),
                   format_in_unit(record, histogram.max));
  out += '\n';
  const std::vector<events::HistogramRange> ranges = events::merge_by_power_of_two(histogram);
  std::uint64_t most = histogram.negative;
  for (const events::HistogramRange& range : ranges) most = std::max(most, range.count);
  const auto row = [&](std::string_view label, std::uint64_t count) {
    const auto filled =
        static_cast<std::size_t>(static_cast<unsigned __int128>(count) * bar_width / most);
    // A bucket that is not empty has at least one character.
    const std::size_t bar = count > 0 ? std::max<std::size_t>(filled, 1) : 0;
    fmt::format_to(std::back_inserter(out), "{:>24} {:>12} |{:<{}}|\n", label, count,
                   std::string(bar, '#'), bar_width);
  };
  if (histogram.negative > 0) row("below 0", histogram.negative);
  for (const events::HistogramRange& range : ranges)
    row(range.low == 0 ? "0"
                       : fmt::format("[{}, {})", format_bound(record, range.low),
                                     range.high == 0 ? "2^64" : format_bound(record, range.high)),
        range.count);
}

std::string bucket_list(const bpf::Histogram& histogram) {
  std::string text;
  if (histogram.negative > 0) text = fmt::format("-:{}", histogram.negative);
  for (const events::HistogramRange& range : events::merge_by_power_of_two(histogram))
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", range.low, range.count);
  return text;
}

void append_json_buckets(std::string& out, const bpf::Histogram& histogram) {
  out += '[';
  for (const events::HistogramRange& range : events::merge_by_power_of_two(histogram)) {
    out += out.back() == '[' ? "{\"low\":" : ",{\"low\":";
    append_json_value(out, values::Value{range.low});
    out += ",\"high\":";
    append_json_value(out, values::Value{range.high});
    out += ",\"count\":";
    append_decimal(out, range.count);
    out += '}';
  }
  out += ']';
}

// Columns and cells show the causes in this order.
constexpr std::array shown_causes = {WAIT_SLEPT, WAIT_BLOCKED, WAIT_PREEMPTED};

std::vector<std::string_view> summary_columns(const CallSummaryRecord& record) {
  std::vector<std::string_view> names = {"CALLS", "TOTAL", "SELF"};
  if (record.has_cpu) names.insert(names.end(), {"CPU", "SELF CPU"});
  if (record.has_causes) names.insert(names.end(), {"SLEPT", "BLOCKED", "PREEMPTED"});
  names.insert(names.end(), {"MIN", "AVG", "MAX", "P50", "P99", "FUNCTION"});
  return names;
}

std::vector<std::string> summary_cells(const CallSummaryRecord& record, std::string name) {
  const events::FunctionSummary& function = *record.function;
  const bpf::Histogram& durations = function.durations;
  std::vector<std::string> cells = {std::to_string(function.calls)};
  const auto add = [&](bool is_known, std::uint64_t nanoseconds) {
    std::string& cell = cells.emplace_back();
    if (is_known)
      append_short_duration(cell, nanoseconds);
    else
      cell = "-";
  };
  add(true, function.total_ns);
  add(true, function.self_ns);
  if (record.has_cpu) {
    add(function.timed > 0, function.on_cpu_ns);
    add(function.timed > 0, function.self_on_cpu_ns);
  }
  for (const wait_cause cause : shown_causes)
    if (record.has_causes)
      add(function.caused_ns.has_value(), function.caused_ns.value_or(events::WaitCauses())[cause]);
  for (const std::int64_t each : {durations.min, static_cast<std::int64_t>(function.average_ns()),
                                  durations.max, events::percentile(durations, 50).value_or(0),
                                  events::percentile(durations, 99).value_or(0)})
    add(durations.count > 0, static_cast<std::uint64_t>(each));
  if (function.no_return > 0) name += fmt::format("  ({} without a return)", function.no_return);
  if (function.unfinished > 0) name += fmt::format("  ({} unfinished)", function.unfinished);
  cells.push_back(std::move(name));
  return cells;
}

std::vector<std::string> cause_cells(const std::optional<events::WaitCauses>& caused) {
  std::vector<std::string> cells;
  for (const wait_cause cause : shown_causes)
    if (caused && (*caused)[cause] > 0) {
      std::string& cell = cells.emplace_back(to_string(cause));
      cell += ' ';
      append_short_duration(cell, (*caused)[cause]);
    }
  return cells;
}

std::string wait_text(const events::CallWait& wait) {
  std::string text;
  append_short_duration(text, wait.duration_ns);
  text.append(": ").append(to_string(wait.cause));
  if (!wait.waker_comm.empty())
    text += fmt::format(", woken by '{}' ({})", printable(wait.waker_comm), wait.waker_tid);
  return text;
}

} // namespace uprobectl::output
