// SPDX-License-Identifier: Apache-2.0
#include "trace/probes.hpp"

namespace uprobectl {

Probe& Probes::add(ProbePoint point) {
  probes_.push_back({.point = std::move(point)});
  number(probes_.size() - 1);
  return probes_.back();
}

void Probes::remove_if(const std::function<bool(const Probe&)>& is_removed) {
  if (std::erase_if(probes_, is_removed) == 0) return;
  first_places_.clear();
  for (std::size_t i = 0; i < probes_.size(); ++i) number(i);
}

void Probes::number(std::size_t index) {
  Probe& probe = probes_[index];
  probe.number = index;
  probe.first = index;
  if (!probe.point.static_probe) return;
  const ProbedBinary& binary = *probe.point.binary;
  probe.first = first_places_
                    .emplace(std::tuple(binary.file->identity(), binary.entry_data.value,
                                        *probe.point.symbol),
                             index)
                    .first->second;
}

ProbeTotals probe_totals(std::span<const Probe> probes) {
  ProbeTotals totals;
  for (const Probe& probe : probes) {
    totals.probes += probe.is_first() ? 1 : 0;
    totals.static_places += probe.point.static_probe ? 1 : 0;
  }
  return totals;
}

void add_up_hits(std::span<Probe> probes) {
  for (Probe& probe : probes) {
    if (probe.is_first()) {
      probe.total_hits = probe.hits;
      continue;
    }
    std::optional<std::uint64_t>& total = probes[probe.first].total_hits;
    total = total && probe.hits ? std::optional(*total + *probe.hits) : std::nullopt;
  }
}

} // namespace uprobectl
