// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/symbols.hpp"

namespace uprobectl::symbols {

namespace {

// The result of matching a bracket expression. As in a shell, `]` directly after the opening
// bracket (and `!`) is an ordinary character.
struct Bracket {
  bool matches = false;
  std::size_t end = 0; // just after the closing ']'
};

std::optional<Bracket> match_bracket(std::string_view pattern, std::size_t at, char c) {
  std::size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (const std::size_t first = i; i < pattern.size(); ++i) {
    if (pattern[i] == ']' && i > first) return Bracket{found != negated, i + 1};
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    const auto low = static_cast<unsigned char>(pattern[i]);
    auto high = low;
    const bool is_range = i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']';
    if (is_range) {
      i += 2;
      if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
      high = static_cast<unsigned char>(pattern[i]);
    }
    const auto value = static_cast<unsigned char>(c);
    if (low <= value && value <= high) found = true;
  }
  return std::nullopt; // not closed: the bracket is an ordinary character
}

// Matches one character; returns where the pattern continues, or nullopt.
std::optional<std::size_t> match_one(std::string_view pattern, std::size_t at, char c) {
  if (at >= pattern.size()) return std::nullopt;
  if (pattern[at] == '?') return at + 1;
  if (pattern[at] == '[') {
    if (const auto bracket = match_bracket(pattern, at, c))
      return bracket->matches ? std::optional(bracket->end) : std::nullopt;
  }
  if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
  return pattern[at] == c ? std::optional(at + 1) : std::nullopt;
}

} // namespace

bool is_pattern(std::string_view text) {
  // Fast path: most names contain none of these.
  if (!text.contains('*') && !text.contains('?') && !text.contains('[')) return false;
  bool may_close = true; // after an unclosed bracket, later ones are not closed either
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '*' || text[i] == '?')
      return true;
    else if (text[i] == '[' && may_close) {
      if (match_bracket(text, i, '\0')) return true;
      may_close = false;
    }
  }
  return false;
}

std::string without_wildcards(std::string_view pattern) {
  std::string plain(pattern);
  std::erase_if(plain, [](char c) { return c == '*' || c == '?' || c == '[' || c == ']'; });
  return plain;
}

// Greedy with one backtracking point: only the last `*` may have to match more, so the time is at
// most the product of both lengths.
bool matches_pattern(std::string_view pattern, std::string_view name) {
  struct Star {
    std::size_t pattern; // just after the `*`
    std::size_t name;    // where what follows the `*` was tried last
  };
  std::optional<Star> star;
  std::size_t p = 0;
  for (std::size_t n = 0; n < name.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = Star{++p, n};
    } else if (const auto next = match_one(pattern, p, name[n])) {
      p = *next;
      ++n;
    } else if (star) {
      p = star->pattern;
      n = ++star->name;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

} // namespace uprobectl::symbols
