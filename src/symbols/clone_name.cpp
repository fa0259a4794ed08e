#include "symbols/clone_name.hpp"

#include <algorithm>
#include <array>

namespace uprobectl {

namespace {

constexpr std::array<std::string_view, 7> words = {"constprop", "isra",     "part",  "cold",
                                                   "llvm",      "lto_priv", "__uniq"};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

} // namespace

std::optional<CloneName> clone_name(std::string_view raw) {
  if (!raw.contains('.')) return std::nullopt; // most names: much quicker than rfind
  CloneName result{raw, false};
  while (true) {
    std::string_view rest = result.base;
    std::size_t dot = rest.rfind('.');
    if (dot != std::string_view::npos && is_number(rest.substr(dot + 1))) {
      rest = rest.substr(0, dot);
      dot = rest.rfind('.');
    }
    if (dot == std::string_view::npos || dot == 0) break;
    const std::string_view word = rest.substr(dot + 1);
    if (std::ranges::find(words, word) == words.end()) break;
    result.cold = result.cold || word == "cold";
    result.base = rest.substr(0, dot);
  }
  if (result.base.size() == raw.size()) return std::nullopt;
  return result;
}

bool has_other_arguments(std::string_view raw) {
  const auto clone = clone_name(raw);
  if (!clone) return false;
  for (std::string_view rest = raw.substr(clone->base.size()); !rest.empty();) {
    rest.remove_prefix(1); // the dot
    const std::string_view word = rest.substr(0, rest.find('.'));
    if (word == "constprop" || word == "isra" || word == "part") return true;
    rest.remove_prefix(word.size());
  }
  return false;
}

} // namespace uprobectl
