// Durations as the command line takes them: "10s", "500ms", "2m", "1.5h"; bare numbers are seconds.
#pragma once

#include "uprobectl/base.hpp"

#include <chrono>

namespace uprobectl::cli {

// usage error for anything else, for zero and for negative durations.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// Reads one as the value of an option, by whose name its error begins.
struct DurationReader {
  std::string_view option;

  Result<std::chrono::nanoseconds> operator()(const std::string& text) const;
};

} // namespace uprobectl::cli
