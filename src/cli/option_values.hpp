// SPDX-License-Identifier: Apache-2.0
// Numbers, durations, processes and settings as the command line takes them.
#pragma once

#include "option_parser.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <limits>
#include <sys/types.h>

namespace uprobectl::cli {

// A decimal number above zero.
std::optional<std::uint64_t> parse_count(std::string_view text);

// Reads a decimal number as the value of an option.
struct CountReader {
  std::string mistake; // of the usage error, with {} for the value
  std::uint64_t least = 1;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

  Result<std::uint64_t> operator()(const std::string& text) const;
};

// The pids of "-p 4711 -p 1,2,3", each once, in order; usage error for anything else.
Result<std::vector<pid_t>> parse_pids(const std::vector<std::string>& lists);

// The same with names of processes. A word of digits only is a pid.
struct ProcessWords {
  std::vector<pid_t> pids;
  std::vector<std::string> names; // each once, in order
};
Result<ProcessWords> parse_processes(const std::vector<std::string>& lists);

// "10s", "500ms", "2m", "1.5h"; bare numbers are seconds. usage error for anything else, for zero
// and for negative durations.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// Reads a duration as the value of an option, whose name its error begins with.
struct DurationReader {
  std::string_view option;

  Result<std::chrono::nanoseconds> operator()(const std::string& text) const;
};

// --set NAME=VALUE, taken apart; usage error without a name or a '='.
Result<std::vector<std::pair<std::string, std::string>>>
parse_settings(const std::vector<std::string>& settings);

} // namespace uprobectl::cli
