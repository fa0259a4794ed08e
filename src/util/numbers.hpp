// SPDX-License-Identifier: Apache-2.0
// Numbers in text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace uprobectl {

// Takes the number that the text begins with off it. Returns nullopt, and takes nothing, if there
// is none or it does not fit. Only signed types take a '-'; no type takes a '+' or blanks.
template <typename Number>
std::optional<Number> take_number(std::string_view& text, int base = 10) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// The same where the whole text is the number.
template <typename Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  const auto value = take_number<Number>(text, base);
  return text.empty() ? value : std::nullopt;
}

} // namespace uprobectl
