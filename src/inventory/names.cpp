#include "inventory/names.hpp"

#include "uprobectl/resolve.hpp"

#include <fmt/format.h>
#include <map>

namespace uprobectl {

void name_probes(std::span<InstalledProbe> probes) {
  std::map<std::string, std::optional<Target>> targets;
  for (InstalledProbe& probe : probes) {
    auto [found, is_new] = targets.try_emplace(probe.file);
    if (is_new)
      if (auto target = Target::open(probe.file)) found->second = std::move(*target);
    if (!found->second) continue; // deleted, or of another mount namespace
    const auto place = fmt::format("file-offset:{:#x}", probe.offset.value);
    const auto spec = parse_function(place);
    const auto points = spec ? found->second->resolve(*spec) : fail(spec.error());
    if (!points || points->empty()) continue;
    const ProbePoint& point = points->front();
    probe.entry = point.binary->path.entry;
    if (point.symbol) probe.symbol = display_name(point);
  }
}

} // namespace uprobectl
