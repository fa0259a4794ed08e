// SPDX-License-Identifier: Apache-2.0
// Draws arrays of users' programs that count values by their power of two, as the tools of bcc do:
// their programs name such an array `slots` or `hist`.
#pragma once

#include "values/value.hpp"

#include <vector>

namespace uprobectl::output {

struct Slots {
  std::string name;
  std::vector<std::uint64_t> counts; // of 0 and 1, 2 and 3, 4 to 7, …
};

// Returns the lines of the histogram, with stars; empty if all counts are 0.
std::string draw_slots(const Slots& slots);
// Appends a value without these arrays as text, and returns the lines of their histograms. `name`:
// of the whole value, which may be such an array itself.
std::string append_without_slots(std::string& text, const values::Value& value,
                                 std::string_view name);

} // namespace uprobectl::output
