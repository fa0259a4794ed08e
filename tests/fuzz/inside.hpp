// SPDX-License-Identifier: Apache-2.0
// What a parser returns as a view of a line has to lie in it.
#pragma once

#include <cstdlib>
#include <string_view>

inline void check_inside(std::string_view part, std::string_view line) {
  if (part.empty()) return;
  if (part.data() < line.data() || part.data() + part.size() > line.data() + line.size())
    std::abort();
}
