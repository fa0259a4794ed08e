// SPDX-License-Identifier: Apache-2.0
#include "uprobectl/path.hpp"

namespace uprobectl {

namespace {
constexpr std::string_view separator = "!/";
}

std::string to_string(const BinaryPath& path) {
  if (!path.entry) return path.file;
  return path.file + std::string(separator) + *path.entry;
}

std::string_view file_name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::vector<BinaryPath> parse_candidates(std::string_view text) {
  std::vector<BinaryPath> result;
  if (text.empty() || text.size() > max_path_length) return result;
  result.push_back({std::string(text), std::nullopt});
  for (auto at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator, at + 1)) {
    const auto file = text.substr(0, at);
    const auto entry = text.substr(at + separator.size());
    if (!file.empty() && !entry.empty()) result.push_back({std::string(file), std::string(entry)});
  }
  return result;
}

std::vector<BinaryPath> parse_library_names(std::string_view text) {
  std::vector<BinaryPath> result;
  if (text.size() > max_path_length) return result;
  for (auto at = text.find('!'); at != std::string_view::npos; at = text.find('!', at + 1)) {
    const auto name = text.substr(at + 1);
    if (at != 0 && !name.empty() && !name.starts_with('/'))
      result.push_back({std::string(text.substr(0, at)), std::string(name)});
  }
  return result;
}

} // namespace uprobectl
