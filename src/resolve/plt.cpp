#include "resolve/choose.hpp"
#include "resolve/explain.hpp"
#include "resolve/point.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

// The entries of the import with this name, version or written form, by address.
std::vector<elf::Symbol> entries_named(const std::vector<elf::Symbol>& entries,
                                       std::string_view name) {
  std::vector<elf::Symbol> named;
  const auto is_named = [&](const elf::Symbol& entry) {
    if (entry.name == name) return true;
    return entry.version && name.starts_with(entry.name) &&
           name.substr(entry.name.size()) == "@" + std::string(entry.version->name);
  };
  std::ranges::copy_if(entries, std::back_inserter(named), is_named);
  if (named.empty())
    std::ranges::copy_if(entries, std::back_inserter(named), [&](const elf::Symbol& entry) {
      return is_written_name(entry.name, name);
    });
  return named;
}

} // namespace

Result<std::vector<ProbePoint>> resolve_plt(const Question& question) {
  const std::string_view name = question.function.name;
  const auto entries = plt_entries(question.image);
  auto named = entries_named(entries, name);
  const bool pattern = named.empty() && is_pattern(name);
  if (pattern)
    std::ranges::copy_if(entries, std::back_inserter(named), [&](const elf::Symbol& entry) {
      return matches_name(std::string(name), entry.name);
    });
  if (named.empty()) return fail(no_plt_entry(question));
  if (!pattern && named.size() > 1 && !question.options.all)
    return fail(ambiguous_name(question, named));
  std::vector<ProbePoint> points;
  for (const elf::Symbol& entry : named) {
    auto point = point_of(question, entry);
    if (!point) return fail(std::move(point).error());
    points.push_back(std::move(*point));
  }
  std::ranges::sort(points, {}, &ProbePoint::image_offset);
  return points;
}

} // namespace uprobectl
