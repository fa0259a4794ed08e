// SPDX-License-Identifier: Apache-2.0
#include "util/json_size.hpp"

#include <algorithm>

namespace uprobectl {

JsonSize measure_json(std::string_view text) {
  JsonSize size;
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char each = text[i];
    if (in_string) {
      if (each == '\\') ++i;
      in_string = each != '"';
      continue;
    }
    in_string = each == '"';
    const bool opens = each == '[' || each == '{';
    if (opens) size.depth = std::max(size.depth, ++depth);
    if ((each == ']' || each == '}') && depth > 0) --depth;
    // A value follows each of these.
    if (opens || each == ',' || each == ':') ++size.values;
  }
  return size;
}

bool is_parsable_record(std::string_view line) {
  constexpr std::size_t max_depth = 256;
  constexpr std::size_t max_values = 1 << 20;
  const JsonSize size = measure_json(line);
  return size.depth <= max_depth && size.values <= max_values;
}

} // namespace uprobectl
