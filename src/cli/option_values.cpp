// SPDX-License-Identifier: Apache-2.0
#include "option_values.hpp"

#include "events/filter.hpp"
#include "util/numbers.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace uprobectl::cli {

namespace {

template <typename T>
std::optional<T> parse_positive(std::string_view text) {
  const auto value = parse_number<T>(text);
  return value && *value > 0 ? value : std::nullopt;
}

struct Unit {
  std::string_view name;
  double nanoseconds;
};
constexpr Unit units[] = {{"ns", 1},       {"us", 1e3},       {"ms", 1e6}, {"s", 1e9},
                          {"m", 60 * 1e9}, {"h", 3600 * 1e9}, {"", 1e9}};

// 366 days, far below an overflow. Longer durations are typing errors.
constexpr double max_duration_ns = 366 * 24 * 3600 * 1e9;

} // namespace

std::optional<std::uint64_t> parse_count(std::string_view text) {
  return parse_positive<std::uint64_t>(text);
}

Result<std::uint64_t> CountReader::operator()(const std::string& text) const {
  const auto number = text == "0" ? std::optional<std::uint64_t>(0) : parse_count(text);
  if (number && *number >= least && *number <= most) return *number;
  return fail(ErrorKind::usage,
              fmt::format("invalid value '{}' for {} (expected {})", text, option, expected));
}

std::vector<std::string> mentioned_files(std::string_view text) {
  std::vector<std::string> files;
  static_cast<void>(events::parse_filter(text, [&](const std::string& path) -> Result<std::string> {
    files.push_back(path);
    return std::string();
  }));
  const std::string_view entry = trimmed(text.substr(std::min(text.find(' '), text.size())));
  if (entry.starts_with('@')) files.emplace_back(entry.substr(1));
  return files;
}

Result<ProcessList> parse_processes(const std::vector<std::string>& lists) {
  ProcessList words;
  const auto add = [](auto& to, auto value) {
    if (std::ranges::find(to, value) == to.end()) to.push_back(std::move(value));
  };
  for (const std::string& list : lists) {
    std::string_view rest = list;
    while (true) {
      const auto comma = std::min(rest.find(','), rest.size());
      const std::string_view word = rest.substr(0, comma);
      if (word.empty())
        return fail(ErrorKind::usage, "invalid value '" + list +
                                          "' for -p (expected pids or names, separated by commas)");
      // A negative number is a mistake. As a name it would probe all processes of the machine.
      const std::string_view digits = word.substr(word.starts_with('-') ? 1 : 0);
      if (digits.find_first_not_of("0123456789") != std::string_view::npos)
        add(words.names, std::string(word));
      else if (const auto pid = parse_positive<pid_t>(word))
        add(words.pids, *pid);
      else
        return fail(ErrorKind::usage, "invalid pid '" + std::string(word) + "'");
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return words;
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (error != std::errc() || suffix != unit.name) continue;
    const double nanoseconds = number * unit.nanoseconds;
    if (!(nanoseconds >= 1) || nanoseconds > max_duration_ns)
      return fail(ErrorKind::usage,
                  "invalid duration '" + std::string(text) + "' (expected 1ns to 366 days)");
    return std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
  }
  return fail(ErrorKind::usage,
              "invalid duration '" + std::string(text) +
                  "' (expected for example 10s, 500ms, 2m or a number of seconds)");
}

Result<std::chrono::nanoseconds> DurationReader::operator()(const std::string& text) const {
  auto duration = parse_duration(text);
  if (!duration) duration.error().message.insert(0, std::string(option) + ": ");
  return duration;
}

} // namespace uprobectl::cli
