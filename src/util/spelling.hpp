// SPDX-License-Identifier: Apache-2.0
// Suggestions for mistyped names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace uprobectl {

// Returns the Levenshtein distance of a and b in bytes, or nullopt if it exceeds the limit. The
// limit is at most 8. Takes O(length * limit) time and allocates no memory.
std::optional<unsigned> edit_distance(std::string_view a, std::string_view b, unsigned limit);

// Returns the largest edit distance at which a name is suggested: min(3, 1 + length / 4), and 0 for
// names of less than three bytes.
unsigned suggestion_limit(std::string_view typed);

// Rates a name as a suggestion for a typed one: the lower the better. Compares edit distances
// first, then the length of what remains without a common prefix and suffix, because people seldom
// mistype the ends of a name. Returns nullopt if the edit distance exceeds the limit.
std::optional<unsigned> suggestion_rank(std::string_view typed, std::string_view name,
                                        unsigned limit);

// Collects up to three of the offered names: those of the lowest ranks, the first offered among
// equals, each name once.
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

// Returns up to three candidates similar to the typed text, the most similar first. Candidates that
// begin with the text are similar, too. Returns nothing for texts of less than two bytes.
std::vector<std::string> nearest(std::string_view typed,
                                 const std::vector<std::string>& candidates);

// Formats "did you mean 'a', 'b' or 'c'?". Returns an empty string if there are no names.
std::string did_you_mean(const std::vector<std::string>& names);

} // namespace uprobectl
