// SPDX-License-Identifier: Apache-2.0
#include "util/spelling.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace uprobectl {

namespace {
constexpr unsigned max_distance = 8;
constexpr std::size_t max_names = 3;
constexpr unsigned rank_per_edit = 64;
} // namespace

std::optional<unsigned> edit_distance(std::string_view a, std::string_view b, unsigned limit) {
  limit = std::min(limit, max_distance);
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return std::nullopt;
  // Computes only the band of the matrix within the limit of the diagonal. cells[k] is the distance
  // between the first i bytes of a and the first i + k - limit bytes of b.
  const unsigned above_limit = limit + 1;
  const std::size_t width = 2 * std::size_t{limit} + 1;
  std::array<unsigned, 2 * max_distance + 1> cells{};
  for (std::size_t k = 0; k < width; ++k)
    cells[k] = k < limit ? above_limit : static_cast<unsigned>(k - limit);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    unsigned smallest = above_limit;
    for (std::size_t k = 0; k < width; ++k) {
      unsigned cell = above_limit;
      const bool inside = i + k >= limit && i + k - limit <= b.size();
      if (inside) {
        const std::size_t j = i + k - limit;
        cell = j == 0 ? static_cast<unsigned>(std::min<std::size_t>(i, above_limit))
                      : cells[k] + (a[i - 1] == b[j - 1] ? 0u : 1u);
        if (k + 1 < width) cell = std::min(cell, cells[k + 1] + 1); // cells[k + 1] is of row i - 1
        if (k > 0) cell = std::min(cell, cells[k - 1] + 1);         // cells[k - 1] is of row i
      }
      cells[k] = std::min(cell, above_limit);
      smallest = std::min(smallest, cells[k]);
    }
    if (smallest == above_limit) return std::nullopt;
  }
  const unsigned result = cells[b.size() + limit - a.size()];
  return result == above_limit ? std::nullopt : std::optional(result);
}

unsigned suggestion_limit(std::string_view typed) {
  if (typed.size() < 3) return 0;
  return static_cast<unsigned>(std::min<std::size_t>(3, 1 + typed.size() / 4));
}

std::optional<unsigned> suggestion_rank(std::string_view typed, std::string_view name,
                                        unsigned limit) {
  const auto edits = edit_distance(typed, name, limit);
  if (!edits) return std::nullopt;
  const auto front = std::ranges::mismatch(typed, name).in1 - typed.begin();
  const std::string_view rest = typed.substr(static_cast<std::size_t>(front));
  const std::string_view rest_of_name = name.substr(static_cast<std::size_t>(front));
  const auto back =
      std::mismatch(rest.rbegin(), rest.rend(), rest_of_name.rbegin(), rest_of_name.rend()).first -
      rest.rbegin();
  const std::size_t changed = rest.size() - static_cast<std::size_t>(back);
  return *edits * rank_per_edit +
         static_cast<unsigned>(std::min<std::size_t>(changed, rank_per_edit - 1));
}

void NearestNames::offer(unsigned rank, std::string_view name) {
  const auto next =
      std::ranges::upper_bound(best_, rank, {}, [](const Candidate& known) { return known.rank; });
  if (next == best_.end() && best_.size() == max_names) return;
  if (std::ranges::find(best_, name, &Candidate::name) != best_.end()) return;
  best_.insert(next, {rank, std::string(name)});
  if (best_.size() > max_names) best_.pop_back();
}

std::vector<std::string> NearestNames::take() && {
  std::vector<std::string> names;
  for (Candidate& known : best_) names.push_back(std::move(known.name));
  return names;
}

std::vector<std::string> nearest(std::string_view typed,
                                 const std::vector<std::string>& candidates) {
  if (typed.size() < 2) return {};
  const unsigned limit = suggestion_limit(typed);
  NearestNames near;
  for (const std::string& candidate : candidates) {
    if (const auto rank = suggestion_rank(typed, candidate, limit))
      near.offer(*rank, candidate);
    else if (candidate.starts_with(typed))
      near.offer((limit + 1) * rank_per_edit, candidate);
  }
  return std::move(near).take();
}

std::string did_you_mean(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  return "did you mean " + alternatives(names, "'") + '?';
}

} // namespace uprobectl
