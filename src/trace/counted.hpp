// SPDX-License-Identifier: Apache-2.0
// Numbers of things, for people.
#pragma once

#include <cstdint>
#include <fmt/format.h>

namespace uprobectl {

// "1 process", "2 processes"
inline std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

} // namespace uprobectl
