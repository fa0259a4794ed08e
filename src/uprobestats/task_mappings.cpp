#include "uprobestats/task_mappings.hpp"

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

std::string_view package_of(std::string_view compiled) {
  const auto ends_at = [&](std::string_view mark) {
    return compiled.substr(0, std::min(compiled.find(mark), compiled.size()));
  };
  std::string_view folder = ends_at("/oat/");
  if (folder.size() == compiled.size()) folder = ends_at(".apk@classes");
  if (folder.size() == compiled.size()) return {};
  if (folder.find('@') != std::string_view::npos) folder = folder.substr(0, folder.rfind('@'));
  folder = folder.substr(folder.find_last_of("/@") + 1);
  return folder.substr(0, folder.find('-'));
}

bool is_same_jar(std::string_view one, std::string_view other) {
  const std::string_view jar = jar_of(one);
  if (jar.empty() || jar != jar_of(other)) return false;
  if (jar != "base" && !jar.starts_with("split_")) return true;
  const std::string_view package = package_of(one);
  return !package.empty() && package == package_of(other);
}

std::optional<std::string> mapped_for_same_jar(pid_t pid, std::span<const std::string> files) {
  const auto mappings = mappings_of(pid);
  if (!mappings) return std::nullopt;
  for (const Mapping& mapping : *mappings) {
    if (std::ranges::find(files, mapping.path) != files.end()) continue;
    if (std::ranges::any_of(
            files, [&](const std::string& file) { return is_same_jar(file, mapping.path); }))
      return mapping.path;
  }
  return std::nullopt;
}

} // namespace uprobectl
