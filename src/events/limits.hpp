// SPDX-License-Identifier: Apache-2.0
// Limits the number of events: samples (--sample) and a maximum rate (--max-rate).
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace uprobectl::events {

// The maximum number of events of a probe in a window of time. A window begins with an event.
struct EventRate {
  std::uint32_t events = 0;
  std::chrono::milliseconds time{0};
};

struct EventLimits {
  std::uint32_t one_in = 1; // the first hit of a probe is kept, and then every Nth
  std::optional<EventRate> max_rate = {};
};

// Parses "1/100" (--sample). Fails with `usage`; the message names the wrong character.
Result<std::uint32_t> parse_sample(std::string_view text);

// Parses "5k/s", "100/s", "20/min": a number up to 16,777,215, with k or M for thousands and
// millions, in each second or minute.
Result<EventRate> parse_rate(std::string_view text);

} // namespace uprobectl::events
