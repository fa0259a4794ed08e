#include "resolve/quote.hpp"

#include "util/utf8.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

// $'…' of bash, ksh and zsh. Three octal digits end by themselves.
std::string ansi_c_word(std::string_view text) {
  std::string word = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\')
      word += {'\\', c};
    else if (byte < 0x20 || byte >= 0x7f)
      word += {'\\', static_cast<char>('0' + (byte >> 6U)),
               static_cast<char>('0' + ((byte >> 3U) & 7U)), static_cast<char>('0' + (byte & 7U))};
    else
      word += c;
  }
  return word + "'";
}

} // namespace

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain_marks = "_-./:@%+=,";
  const auto is_plain = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           plain_marks.find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  if (!is_printable_text(text)) return ansi_c_word(text);
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
