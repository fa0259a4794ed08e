// SPDX-License-Identifier: Apache-2.0
// Did-you-mean: which of many names a mistyped one is likely to stand for. Text only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uprobectl {

// The number of single-byte insertions, deletions and replacements that turn a into b, or nothing
// if it is above the limit (at most 8). Time is proportional to the length times the limit, however
// long the names are, and no memory is taken.
std::optional<unsigned> edit_distance(std::string_view a, std::string_view b, unsigned limit);

// How far a name may be off and still be suggested: min(3, 1 + length / 4); 0 below three letters,
// which are no misspelling of anything.
unsigned suggestion_limit(std::string_view wanted);

// How bad a guess a name is for what was written, or nothing if it is further off than the limit:
// edits count first, then letters that are not kept at either end, which are seldom got wrong.
std::optional<unsigned> guess_rank(std::string_view wanted, std::string_view name, unsigned limit);

// Collects the best few of the names it is offered: the lowest rank first, of equals what was
// offered first, each name once.
class NearestNames {
public:
  void offer(unsigned rank, std::string_view name);
  std::vector<std::string> take() &&;

private:
  struct Candidate {
    unsigned rank;
    std::string name;
  };
  std::vector<Candidate> best_; // sorted, at most three
};

// Up to three of the candidates, nearest first; a candidate that begins with the wanted text counts
// as near. Nothing for texts shorter than two characters.
std::vector<std::string> nearest(std::string_view wanted,
                                 const std::vector<std::string>& candidates);

// "did you mean 'a', 'b' or 'c'?"; empty for no names.
std::string did_you_mean(const std::vector<std::string>& names);

} // namespace uprobectl
