// SPDX-License-Identifier: Apache-2.0
// Words of a shell: splits lines into them, and quotes text as one of them.
#pragma once

#include "uprobectl/util.hpp"

#include <deque>

namespace uprobectl {

// Splits lines of requests, "TARGET FUNCTION…". Quotes and backslashes work as in POSIX (Shell
// Command Language 2.2); variables and patterns do not. '#' at the start of a word begins a
// comment.
class WordSplitter {
public:
  // The words, valid until the next call. They are views of the line or, if something in a word is
  // quoted, of strings that live as long as the splitter. usage error if a quote is not closed.
  Result<std::span<const std::string_view>> split(std::string_view line);

private:
  std::vector<std::string_view> words_;
  std::deque<std::string> unquoted_; // words that differ from their text in the line
};

// The words of a single line.
Result<std::vector<std::string>> split_words(std::string_view line);

// The text as one shell word that a user can paste: in single quotes if any character means
// something to a shell (interactive bash expands even the "!/" of ARCHIVE!/ENTRY).
std::string shell_word(std::string_view text);

} // namespace uprobectl
