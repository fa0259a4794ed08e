#include "output/times.hpp"
#include "output/escape.hpp"
#include "output/json_record.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <fmt/format.h>

namespace uprobectl {

void append_short_duration(std::string& out, std::uint64_t nanoseconds) {
  if (nanoseconds < 1000) {
    append_decimal(out, nanoseconds);
    out += "ns";
    return;
  }
  constexpr std::array<std::string_view, 3> units = {"us", "ms", "s"};
  double value = static_cast<double>(nanoseconds) / 1000;
  std::size_t unit = 0;
  // What three digits would round up to 1000 is one of the next unit.
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

void WallClock::append_time(std::string& out, std::uint64_t monotonic_ns) {
  constexpr std::uint64_t second_ns = 1'000'000'000;
  const std::uint64_t wall = monotonic_ns + difference_;
  // Converting to local time is the costly part, and many events share a second.
  if (wall / second_ns != second_) {
    second_ = wall / second_ns;
    const auto seconds = static_cast<std::time_t>(second_);
    std::tm local{};
    localtime_r(&seconds, &local);
    std::strftime(text_, sizeof(text_), "%H:%M:%S", &local);
  }
  out += text_;
  const std::string micros = std::to_string(wall % second_ns / 1000);
  out += '.';
  out.append(6 - micros.size(), '0');
  out += micros;
}

namespace {

constexpr std::size_t bar_width = 40;

std::string bound(const HistogramRecord& record, std::uint64_t number) {
  std::string text;
  if (record.in_nanoseconds)
    append_short_duration(text, number);
  else
    append_decimal(text, number);
  return text;
}

} // namespace

std::string in_unit(const HistogramRecord& record, std::int64_t number) {
  if (record.in_nanoseconds && number >= 0)
    return bound(record, static_cast<std::uint64_t>(number));
  return std::to_string(number);
}

void draw_histogram(std::string& out, std::string_view name, const HistogramRecord& record) {
  const Histogram& histogram = record.histogram;
  append_printable(out, name);
  fmt::format_to(std::back_inserter(out), ": {} {}", histogram.count,
                 record.in_nanoseconds ? "calls" : "values");
  if (histogram.count > 0)
    fmt::format_to(std::back_inserter(out), ", min {}, p50 {}, p99 {}, max {}",
                   in_unit(record, histogram.min), in_unit(record, percentile(histogram, 50)),
                   in_unit(record, percentile(histogram, 99)), in_unit(record, histogram.max));
  out += '\n';
  const std::vector<HistogramRange> ranges = powers_of_two(histogram);
  std::uint64_t most = histogram.negative;
  for (const HistogramRange& range : ranges) most = std::max(most, range.count);
  const auto row = [&](std::string_view label, std::uint64_t count) {
    const auto filled =
        static_cast<std::size_t>(static_cast<unsigned __int128>(count) * bar_width / most);
    // What is there is seen, however little it is beside the others.
    const std::size_t bar = count > 0 ? std::max<std::size_t>(filled, 1) : 0;
    fmt::format_to(std::back_inserter(out), "{:>24} {:>12} |{:<{}}|\n", label, count,
                   std::string(bar, '#'), bar_width);
  };
  if (histogram.negative > 0) row("below 0", histogram.negative);
  for (const HistogramRange& range : ranges)
    row(range.low == 0 ? "0"
                       : fmt::format("[{}, {})", bound(record, range.low),
                                     range.high == 0 ? "2^64" : bound(record, range.high)),
        range.count);
}

std::string bucket_list(const Histogram& histogram) {
  std::string text;
  if (histogram.negative > 0) text = fmt::format("-:{}", histogram.negative);
  for (const HistogramRange& range : powers_of_two(histogram))
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", range.low, range.count);
  return text;
}

void append_json_buckets(std::string& out, const Histogram& histogram) {
  out += '[';
  for (const HistogramRange& range : powers_of_two(histogram)) {
    out += out.back() == '[' ? "{\"low\":" : ",{\"low\":";
    append_json_value(out, DataValue{range.low});
    out += ",\"high\":";
    append_json_value(out, DataValue{range.high});
    out += ",\"count\":";
    append_decimal(out, range.count);
    out += '}';
  }
  out += ']';
}

} // namespace uprobectl
