#include "duration.hpp"

#include <charconv>

namespace uprobectl::cli {

namespace {

struct Unit {
  std::string_view name;
  double nanoseconds;
};
constexpr Unit units[] = {{"ns", 1},       {"us", 1e3},       {"ms", 1e6}, {"s", 1e9},
                          {"m", 60 * 1e9}, {"h", 3600 * 1e9}, {"", 1e9}};

// A year: longer is a slip of the finger, and still far from overflowing.
constexpr double longest = 366 * 24 * 3600 * 1e9;

} // namespace

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (error != std::errc() || suffix != unit.name) continue;
    const double nanoseconds = number * unit.nanoseconds;
    if (!(nanoseconds >= 1) || nanoseconds > longest)
      return fail(ErrorKind::usage,
                  "the duration '" + std::string(text) + "' is not between 1ns and a year");
    return std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
  }
  return fail(ErrorKind::usage,
              "'" + std::string(text) +
                  "' is no duration: write 10s, 500ms, 2m or a number of seconds");
}

Result<std::chrono::nanoseconds> DurationReader::operator()(const std::string& text) const {
  auto duration = parse_duration(text);
  if (!duration) duration.error().message.insert(0, std::string(option) + ": ");
  return duration;
}

} // namespace uprobectl::cli
