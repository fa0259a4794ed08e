#include "uprobectl/elf/inlined.hpp"
#include "session/silence.hpp"
#include "symbols/clone_name.hpp"

#include <map>

namespace uprobectl {

namespace {

// The name of the function that begins at the point, as its source has it: debug data know no
// "f.constprop.0".
std::optional<std::string_view> source_name(const ProbePoint& point) {
  if (!point.symbol || point.symbol_offset != 0 || point.kind == SymbolKind::plt)
    return std::nullopt;
  const auto clone = clone_name(*point.symbol);
  return clone ? clone->base : std::string_view(*point.symbol);
}

} // namespace

std::vector<std::optional<std::uint64_t>>
inlined_places(std::span<const ProbePoint> points, const std::vector<bool>& silent,
               std::span<const std::string> debug_places) {
  std::map<std::shared_ptr<const ProbedBinary>, std::vector<std::size_t>> by_binary;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (silent[i] && source_name(points[i])) by_binary[points[i].binary].push_back(i);

  std::vector<std::optional<std::uint64_t>> result(points.size());
  const elf::DebugSearch where{.places = {debug_places.begin(), debug_places.end()}};
  for (const auto& [binary, indices] : by_binary) {
    const auto image = elf::Image::open(binary->file, binary->path);
    if (!image) continue;
    std::vector<std::string_view> names;
    for (const std::size_t i : indices) names.push_back(*source_name(points[i]));
    const auto counts = elf::count_inlined(*image, where, names);
    if (!counts) continue; // that nothing is known is no news
    for (std::size_t at = 0; at < indices.size(); ++at) result[indices[at]] = (*counts)[at];
  }
  return result;
}

} // namespace uprobectl
