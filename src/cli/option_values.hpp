// SPDX-License-Identifier: Apache-2.0
// Parses values of options: numbers, durations and processes.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <limits>
#include <sys/types.h>

namespace uprobectl::cli {

// Parses a decimal number above zero.
std::optional<std::uint64_t> parse_count(std::string_view text);

// Parses a decimal number as the value of an option.
struct CountReader {
  std::string_view option; // as messages name it
  std::string expected;    // for example "a number of functions"
  std::uint64_t least = 1;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

  Result<std::uint64_t> operator()(const std::string& text) const;
};

// Returns the files of "in @FILE" in a condition, and that of "MAP @FILE", as they are written.
std::vector<std::string> mentioned_files(std::string_view text);

// Pids and names of processes, each once, in order.
struct ProcessList {
  std::vector<pid_t> pids;
  std::vector<std::string> names;
};
// Parses the pids and names of "-p 4711 -p 1,app": a word of digits is a pid.
Result<ProcessList> parse_processes(const std::vector<std::string>& lists);

// Parses "10s", "500ms", "2m", "1.5h"; a number without unit is seconds. usage for other text and
// for durations that are not above zero.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// Parses a duration as the value of an option. Errors start with the name of the option.
struct DurationReader {
  std::string_view option;

  Result<std::chrono::nanoseconds> operator()(const std::string& text) const;
};

} // namespace uprobectl::cli
