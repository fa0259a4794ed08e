// SPDX-License-Identifier: Apache-2.0
// Checks of what a parser returns. One that fails ends the program, which is how libFuzzer learns
// of it.
#pragma once

#include <cstdlib>
#include <string_view>

inline void require(bool holds) {
  if (!holds) std::abort();
}

// A parser that returns a part of a line returns a view of that line.
inline void require_inside(std::string_view part, std::string_view line) {
  if (part.empty()) return;
  require(part.data() >= line.data() && part.data() + part.size() <= line.data() + line.size());
}
