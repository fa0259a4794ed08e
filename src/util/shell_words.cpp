// SPDX-License-Identifier: Apache-2.0
#include "util/shell_words.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace uprobectl {

namespace {

// Bytes that are compared at once: a vector extension of GCC and Clang.
using Block = char __attribute__((vector_size(16)));

// Tests one character, or each of a block.
template <typename Chars>
auto is_special(Chars c) {
  return (c == ' ') | (c == '\t') | (c == '\r') | (c == '\'') | (c == '"') | (c == '\\');
}

// Returns the length of the text before the first special character.
std::size_t plain_length(std::string_view text) {
  std::size_t length = 0;
  for (; text.size() - length >= sizeof(Block); length += sizeof(Block)) {
    Block block;
    std::memcpy(&block, text.data() + length, sizeof(block));
    const auto words = std::bit_cast<std::array<std::uint64_t, 2>>(is_special(block));
    if ((words[0] | words[1]) != 0) break;
  }
  while (length < text.size() && !is_special(text[length])) ++length;
  return length;
}

// The part of a line that has not been split yet.
class Rest {
public:
  explicit Rest(std::string_view line) : rest_(line) {}

  bool skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
    return !rest_.empty() && rest_.front() != '#';
  }

  bool at_end_of_word() const { return rest_.empty() || is_blank(rest_.front()); }

  // Removes and returns the text before the first quote, backslash or blank: usually a whole word.
  std::string_view take_plain() {
    const std::string_view text = rest_.substr(0, plain_length(rest_));
    rest_.remove_prefix(text.size());
    return text;
  }

  // Appends one character or one quoted part to the word. Returns false if a quote is not closed.
  bool take_part(std::string& word) {
    const char c = take();
    if (c == '\'' || c == '"') return take_quoted(c, word);
    if (c != '\\') {
      word += c;
      return true;
    }
    if (rest_.empty()) return false;
    word += take();
    return true;
  }

private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  bool take_quoted(char quote, std::string& word) {
    while (!rest_.empty()) {
      const char c = take();
      if (c == quote) return true;
      const bool escapes = quote == '"' && c == '\\' && !rest_.empty() &&
                           std::string_view("\"\\$`").find(rest_.front()) != std::string_view::npos;
      word += escapes ? take() : c;
    }
    return false;
  }

  std::string_view rest_;
};

// Quotes text as $'…' of bash, ksh and zsh. Octal escapes have three digits, so that a digit may
// follow.
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

Result<std::span<const std::string_view>> WordSplitter::split(std::string_view line) {
  words_.clear();
  for (Rest rest(line); rest.skip_blanks();) {
    words_.push_back(rest.take_plain());
    if (rest.at_end_of_word()) continue;
    std::string& word = unquoted_.emplace_back(words_.back());
    while (!rest.at_end_of_word())
      if (!rest.take_part(word))
        return fail(ErrorKind::usage, "a quote or backslash is not closed");
    words_.back() = word;
  }
  return words_;
}

Result<std::vector<std::string>> split_words(std::string_view line) {
  WordSplitter splitter;
  const auto words = splitter.split(line);
  if (!words) return fail(words.error());
  return std::vector<std::string>(words->begin(), words->end());
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain_marks = "_-./:@%+=,";
  const auto is_plain = [&](char c) {
    return is_ascii_letter_or_digit(c) || plain_marks.find(c) != std::string_view::npos;
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
