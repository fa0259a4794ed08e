// SPDX-License-Identifier: Apache-2.0
// Text taken apart and put together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace uprobectl {

// Without the blanks at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r") {
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

// Takes the first line off the text. Returns it without its newline.
inline std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

inline std::string_view first_line(std::string_view text) { return take_line(text); }

// "a, b, c"
template <typename Texts>
std::string joined(const Texts& texts, std::string_view separator = ", ") {
  std::string all;
  bool first = true;
  for (const auto& text : texts) {
    if (!first) all += separator;
    first = false;
    all += text;
  }
  return all;
}

// "1 process", "2 processes"
inline std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return std::to_string(count) + ' ' + std::string(count == 1 ? one : many);
}

} // namespace uprobectl
