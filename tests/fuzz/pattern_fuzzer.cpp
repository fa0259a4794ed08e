// SPDX-License-Identifier: Apache-2.0
// Patterns: the first line is the pattern, the rest the name.
#include "uprobectl/symbols.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_pattern(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto pattern = input.substr(0, input.find('\n'));
  if (pattern.size() == input.size()) return 0;
  const auto name = input.substr(pattern.size() + 1);
  (void)symbols::matches_pattern(pattern, name);
  const bool escapes = pattern.find('\\') != std::string_view::npos;
  if (!symbols::is_pattern(pattern) && !escapes && !symbols::matches_pattern(pattern, pattern))
    std::abort();
  if (!symbols::matches_pattern("*", name)) std::abort();
  if (symbols::matches_pattern(pattern, name) &&
      !symbols::matches_pattern(std::string(pattern) + "*", name) &&
      pattern.find('[') == std::string_view::npos && !escapes)
    std::abort();
  return 0;
}
