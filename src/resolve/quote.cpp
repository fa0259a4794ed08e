#include "resolve/quote.hpp"

#include <algorithm>

namespace uprobectl {

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain_marks = "_-./:@%+=,";
  const auto is_plain = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           plain_marks.find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'')
      word += "'\\''";
    else
      word += c;
  }
  return word + "'";
}

} // namespace uprobectl
