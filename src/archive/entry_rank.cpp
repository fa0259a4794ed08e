#include "archive/entry_rank.hpp"

#include "uprobectl/spelling.hpp"

#include <algorithm>

namespace uprobectl::archive {

namespace {

constexpr unsigned folder_limit = 8; // letters; what is further off counts one more
constexpr unsigned misspelt = 1000;  // behind every name with the same base name

std::string_view base_name(std::string_view name) { return name.substr(name.rfind('/') + 1); }

std::string_view folder(std::string_view name) {
  return name.substr(0, name.size() - base_name(name).size());
}

// What the folders share in front counts most: who writes arm64 means arm64-v8a, not x86_64,
// although both are four letters away.
unsigned folder_distance(std::string_view wanted, std::string_view name) {
  const auto shared = std::mismatch(wanted.begin(), wanted.end(), name.begin(), name.end());
  const auto unshared = static_cast<std::size_t>(wanted.end() - shared.first);
  const unsigned letters = edit_distance(wanted, name, folder_limit).value_or(folder_limit + 1);
  return static_cast<unsigned>(std::min<std::size_t>(unshared, 64)) * (folder_limit + 2) + letters;
}

} // namespace

std::optional<unsigned> entry_rank(std::string_view wanted, std::string_view name) {
  const std::string_view base = base_name(wanted);
  if (base_name(name) == base && !base.empty())
    return folder_distance(folder(wanted), folder(name));
  auto rank = guess_rank(wanted, name, suggestion_limit(wanted));
  if (!rank) rank = guess_rank(base, base_name(name), suggestion_limit(base));
  if (!rank) return std::nullopt;
  return misspelt + *rank;
}

} // namespace uprobectl::archive
