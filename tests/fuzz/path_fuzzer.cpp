// SPDX-License-Identifier: Apache-2.0
// Every reading of a path must print as the path it was read from: nothing lost, nothing added.
#include "uprobectl/path.hpp"

#include <cstdint>
#include <cstdlib>

int fuzz_path(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& reading : uprobectl::parse_candidates(text))
    if (to_string(reading) != text) std::abort();
  return 0;
}
