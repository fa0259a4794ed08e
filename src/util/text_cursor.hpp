// SPDX-License-Identifier: Apache-2.0
// The position of a parser in an expression that a user has typed.
#pragma once

#include <cstddef>
#include <string_view>

namespace uprobectl {

constexpr std::string_view expression_blanks = " \t\n";

// A base of parsers of what options have: conditions, the values in them, limits.
class TextCursor {
protected:
  explicit TextCursor(std::string_view text) : text_(text) {}

  // Moves past the token if it is next.
  bool accept(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void skip_blanks() {
    while (at_ < text_.size() && expression_blanks.contains(text_[at_])) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0; // index of the next byte
};

} // namespace uprobectl
