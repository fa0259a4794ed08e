// SPDX-License-Identifier: Apache-2.0
// Splits lines into words as a POSIX shell does, and quotes text for a shell.
#pragma once

#include "uprobectl/util.hpp"

#include <deque>

namespace uprobectl {

// Splits lines into words. Quotes and backslashes work as in POSIX (Shell Command Language 2.2);
// variables and patterns are not expanded. '#' at the start of a word begins a comment.
class WordSplitter {
public:
  // Returns the words; the span is valid until the next call. The words are views of the line or,
  // if they contain quotes or backslashes, of strings that live as long as the splitter. usage if a
  // quote is not closed.
  Result<std::span<const std::string_view>> split(std::string_view line);

private:
  std::vector<std::string_view> words_;
  std::deque<std::string> unquoted_; // words without their quotes and backslashes
};

// Splits a single line.
Result<std::vector<std::string>> split_words(std::string_view line);

// Quotes the text as one shell word that can be pasted. Uses single quotes if any character is
// special to a shell (interactive bash expands even the "!/" of ARCHIVE!/ENTRY).
std::string shell_word(std::string_view text);

} // namespace uprobectl
