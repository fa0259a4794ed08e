// Names in string tables, bounded: without an end to the search, many symbols that all point at
// one string of megabytes would take hours.
#pragma once

#include "uprobectl/base.hpp"

#include <algorithm>

namespace uprobectl::elf {

// Bytes; far longer than what is met (the longest name in libLLVM 14 and libstdc++ has 554).
inline constexpr std::size_t longest_name = 65536;

inline std::optional<std::string_view> name_at(Bytes strings, std::uint64_t offset) {
  if (offset >= strings.size()) return std::nullopt;
  const Bytes rest = strings.subspan(offset);
  return c_string_at(rest.first(std::min(rest.size(), longest_name + 1)), 0);
}

} // namespace uprobectl::elf
