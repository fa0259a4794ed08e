// SPDX-License-Identifier: Apache-2.0
#include "resolve/source_text.hpp"

#include "util/rooted_path.hpp"
#include "util/text.hpp"

#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

// Tries the whole path below the folder, then without its first components.
std::optional<std::string> find_below(const std::string& folder, std::string_view path) {
  if (!is_folder(folder)) return std::nullopt;
  std::string_view rest = path;
  while (rest.starts_with("../")) rest.remove_prefix(3);
  while (!rest.empty()) {
    if (rest.starts_with('/')) {
      rest.remove_prefix(1);
      continue;
    }
    if (std::string candidate = fmt::format("{}/{}", folder, rest); is_regular_file(candidate))
      return candidate;
    const auto slash = rest.find('/');
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  return std::nullopt;
}

} // namespace

std::optional<std::string> find_source(std::string_view path, const SourceSearch& where) {
  for (const auto* const folders : {&where.folders, &where.debug_paths})
    for (const std::string& folder : *folders)
      if (auto found = find_below(folder, path)) return found;
  std::string itself(path);
  if (path.starts_with('/') && is_regular_file(itself)) return itself;
  return std::nullopt;
}

void visit_source_lines(
    std::string_view source, std::uint32_t first, std::uint32_t last,
    const std::function<void(std::uint32_t line, std::string_view text)>& visit) {
  for (std::uint32_t line = 1; line <= last && !source.empty(); ++line) {
    std::string_view text = take_line(source);
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (line >= first) visit(line, text.substr(0, max_source_line));
    if (line == UINT32_MAX) break;
  }
}

} // namespace uprobectl::resolve
