// SPDX-License-Identifier: Apache-2.0
#include "util/errnos.hpp"

#include "util/numbers.hpp"

#include <cstring>
#include <map>

namespace uprobectl {

// Functions return an errno as such (pthread_create), or negative (the kernel's convention).
std::optional<std::string> errno_name(std::int64_t number) {
  if (number == 0 || number < -max_errno || number > max_errno) return std::nullopt;
  const char* const name = strerrorname_np(static_cast<int>(number < 0 ? -number : number));
  if (name == nullptr) return std::nullopt;
  return (number < 0 ? "-" : "") + std::string(name);
}

std::string errno_text(int number) {
  if (number == 0) return {};
  return errno_name(number).value_or(std::to_string(number));
}

std::optional<int> errno_number(std::string_view text) {
  if (text.empty()) return std::nullopt;
  static const auto numbers = [] {
    std::map<std::string, int, std::less<>> made;
    for (int number = -max_errno; number <= max_errno; ++number)
      if (auto name = errno_name(number)) made.emplace(std::move(*name), number);
    return made;
  }();
  const auto named = numbers.find(text);
  return named == numbers.end() ? parse_number<int>(text) : named->second;
}

} // namespace uprobectl
