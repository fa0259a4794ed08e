// SPDX-License-Identifier: Apache-2.0
// Splits and joins text, and checks it for UTF-8. Names come from files and may hold any bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace uprobectl {

constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_ascii_letter_or_digit(char c) { return is_ascii_letter(c) || is_ascii_digit(c); }
// Whatever the locale is: names of files, symbols and registers do not depend on it.
constexpr char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& each : lower) each = lower_case(each);
  return lower;
}
// Whether the character may be in an identifier of C.
constexpr bool in_ascii_identifier(char c) { return is_ascii_letter_or_digit(c) || c == '_'; }
// Whether the text has decimal digits and nothing else.
constexpr bool has_only_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_ascii_digit);
}

// Returns the text without the blanks at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r") {
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

// Removes the first line from the text and returns it without its newline.
inline std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

inline std::string_view first_line(std::string_view text) { return take_line(text); }
// The last line that is not blank, where tools say why they fail.
inline std::string_view last_line(std::string_view text) {
  text = trimmed(text, " \t\r\n");
  const auto newline = text.rfind('\n');
  return trimmed(newline == std::string_view::npos ? text : text.substr(newline + 1));
}

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

// "a", "a or b", "a, b or c"; with "'" as `quote` each in quotes.
template <typename Texts>
std::string alternatives(const Texts& texts, std::string_view quote = {}) {
  std::string all;
  std::size_t left = std::size(texts);
  for (const auto& text : texts) {
    if (!all.empty()) all += left == 1 ? " or " : ", ";
    all.append(quote).append(text).append(quote);
    --left;
  }
  return all;
}

// "1 process", "2 processes"
inline std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return std::to_string(count) + ' ' + std::string(count == 1 ? one : many);
}

// Returns the text, or as many of its characters as fit in `most` bytes, and "…".
std::string shortened(std::string_view text, std::size_t most);

// Returns the length in bytes of the UTF-8 sequence at the position, or 0 if it is not well-formed
// (Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text, std::size_t at);

// Returns the code point that the text begins with. It must begin with a well-formed sequence.
std::uint32_t first_code_point(std::string_view text);

// Appends the code point as UTF-8 (RFC 3629). It must be at most U+10FFFF.
void append_code_point(std::string& text, std::uint32_t point);

// Checks whether a terminal interprets the character instead of showing it. `character` is one
// UTF-8 sequence or a single byte. These are control characters (C0, DEL, C1), line and paragraph
// separators, and characters that change the direction of text (Unicode Standard Annex 9, 2.8),
// which make a name look like another one.
bool is_control_character(std::string_view character);

// Checks whether the text is UTF-8 without control characters.
bool is_printable_text(std::string_view text);

} // namespace uprobectl
