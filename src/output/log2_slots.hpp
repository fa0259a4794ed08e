// SPDX-License-Identifier: Apache-2.0
// Draws arrays of users' programs that count values by their power of two, as the tools of bcc do:
// their programs name such an array `slots` or `hist`.
#pragma once

#include "values/value.hpp"

#include <vector>

namespace uprobectl {

struct Slots {
  std::string name;
  std::vector<std::uint64_t> counts; // of 0 and 1, 2 and 3, 4 to 7, …
};

// Removes these arrays from a value, which is the whole `name` if it is an array itself, and
// returns them.
std::vector<Slots> take_slots(DataValue& value, std::string_view name);

// Returns the lines of the histogram, with stars; empty if all counts are 0.
std::string draw_slots(const Slots& slots);
// Removes the arrays and returns the lines of all.
std::string take_drawn_slots(DataValue& value, std::string_view name);

} // namespace uprobectl
