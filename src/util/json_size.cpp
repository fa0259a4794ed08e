// SPDX-License-Identifier: Apache-2.0
#include "util/json_size.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

// Calls `visit(position, depth)` for each character outside of strings, and for the quote at the
// beginning of each string. The depth is that of the list or object around it, for a bracket its
// own.
template <typename Visit>
void scan_json(std::string_view text, Visit visit) {
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
    if (each == '[' || each == '{') ++depth;
    visit(i, depth);
    if ((each == ']' || each == '}') && depth > 0) --depth;
  }
}

} // namespace

JsonSize measure_json(std::string_view text) {
  JsonSize size;
  scan_json(text, [&](std::size_t at, std::size_t depth) {
    const char each = text[at];
    const bool opens = each == '[' || each == '{';
    size.depth = std::max(size.depth, depth);
    // A value follows each of these.
    if (opens || each == ',' || each == ':') ++size.values;
    if (each == '{') ++size.objects;
  });
  return size;
}

std::optional<JsonParts> split_json(std::string_view text, std::size_t list_depth) {
  JsonParts parts;
  bool in_list = false;              // of that depth
  bool has_other = false;            // such a list has something else
  std::optional<std::size_t> object; // where it begins
  std::size_t copied = 0;            // up to here
  scan_json(text, [&](std::size_t at, std::size_t depth) {
    const char each = text[at];
    if (depth == list_depth && !object) {
      if (each == '[' || each == '{')
        in_list = each == '[';
      else if (in_list && !std::string_view(", \t\r\n]").contains(each))
        has_other = true;
    }
    if (depth != list_depth + 1 || !in_list) return;
    if (each == '[') has_other = true;
    if (each == '{') {
      object = at;
    } else if (each == '}' && object) {
      parts.rest.append(text.substr(copied, *object - copied))
          .append(std::to_string(parts.objects.size()));
      copied = at + 1;
      parts.objects.push_back(text.substr(*object, copied - *object));
      object.reset();
    }
  });
  if (has_other || object) return std::nullopt;
  parts.rest.append(text.substr(copied));
  return parts;
}

bool is_parsable_record(std::string_view line) {
  constexpr std::size_t max_depth = 256;
  constexpr std::size_t max_values = 1 << 20;
  const JsonSize size = measure_json(line);
  return size.depth <= max_depth && size.values <= max_values && size.objects <= max_json_objects;
}

} // namespace uprobectl
