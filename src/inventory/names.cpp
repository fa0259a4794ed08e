#include "inventory/names.hpp"

#include "inventory/files.hpp"
#include "uprobectl/resolve.hpp"

#include <fmt/format.h>
#include <map>

namespace uprobectl {

std::vector<std::string> name_probes(std::span<InstalledProbe> probes) {
  InventoryFiles files(probes);
  std::map<std::string, std::optional<Target>> targets;
  std::map<std::string, std::size_t> ambiguous; // by file, probes in it
  for (InstalledProbe& probe : probes) {
    const auto found_file = files.find(probe);
    if (!found_file) ++ambiguous[probe.file];
    if (!found_file || !*found_file) continue; // the file may be gone
    const InventoryFiles::Found& file = **found_file;
    if (file.elsewhere) probe.file = file.path;
    auto [found, is_new] = targets.try_emplace(file.path);
    if (is_new)
      if (auto target = Target::open(file.path);
          target && target->file()->identity() == file.identity)
        found->second = std::move(*target);
    if (!found->second) continue;
    const auto place = fmt::format("file-offset:{:#x}", probe.offset.value);
    const auto spec = parse_function(place);
    const auto points = spec ? found->second->resolve(*spec) : fail(spec.error());
    if (!points || points->empty()) continue;
    const ProbePoint& point = points->front();
    probe.entry = point.binary->path.entry;
    if (point.symbol) probe.symbol = display_name(point);
  }
  std::vector<std::string> warnings;
  warnings.reserve(ambiguous.size());
  for (const auto& [file, count] : ambiguous)
    warnings.push_back(fmt::format(
        "{}: {} without a symbol: mount namespaces have different files at this path, and the "
        "kernel does not tell which of them is probed",
        file, count == 1 ? "1 probe is shown" : fmt::format("{} probes are shown", count)));
  return warnings;
}

} // namespace uprobectl
