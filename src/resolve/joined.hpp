// Names in a row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace uprobectl {

inline std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

} // namespace uprobectl
