#include "session/task_mappings.hpp"

#include <algorithm>

namespace uprobectl {

std::string_view jar_of(std::string_view compiled) {
  std::string_view name = compiled.substr(compiled.rfind('/') + 1);
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view extension = name.substr(dot);
  if (extension != ".odex" && extension != ".oat" && extension != ".dex") return {};
  name = name.substr(0, dot);
  if (const auto classes = name.rfind("@classes"); classes != std::string_view::npos) {
    name = name.substr(0, classes);
    name = name.substr(name.rfind('@') + 1);
    return name.substr(0, name.rfind('.'));
  }
  return name;
}

std::optional<std::string> mapped_for_same_jar(pid_t pid, std::span<const std::string> files) {
  const auto mappings = mappings_of(pid);
  if (!mappings) return std::nullopt;
  for (const Mapping& mapping : *mappings) {
    const std::string_view jar = jar_of(mapping.path);
    if (jar.empty() || std::ranges::find(files, mapping.path) != files.end()) continue;
    if (std::ranges::any_of(files, [&](const std::string& file) { return jar_of(file) == jar; }))
      return mapping.path;
  }
  return std::nullopt;
}

} // namespace uprobectl
