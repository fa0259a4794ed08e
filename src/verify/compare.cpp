#include "verify/compare.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

using Change = DriftRecord::Change;

bool same_name(const RecordedMatch& then, const ProbePoint& now) {
  return then.symbol == now.symbol && then.version == now.version &&
         then.symbol_offset == now.symbol_offset;
}

std::string hex(std::uint64_t value) { return fmt::format("{:#x}", value); }

} // namespace

bool are_paired(const RecordedMatch& then, const ProbePoint& now, Pairing pairing) {
  if (pairing == Pairing::in_one_file) return true;
  return then.entry == now.binary->path.entry && (then.entry || then.file == now.binary->real_path);
}

std::vector<DriftRecord> compare_matches(std::span<const RecordedMatch> then,
                                         std::span<const ProbePoint> now, const std::string& target,
                                         Pairing pairing) {
  std::vector<DriftRecord> drifts;
  std::vector<bool> paired(now.size(), false);
  for (const RecordedMatch& old : then) {
    DriftRecord drift{.change = Change::gone,
                      .target = target,
                      .request = old.request,
                      .symbol = old.symbol,
                      .recorded = hex(old.offset.value_or(old.image_offset)),
                      .found = std::nullopt};
    // Of several places with one name the first that is left: both lists are in order of offset.
    std::size_t at = 0;
    while (at < now.size() &&
           (paired[at] || !are_paired(old, now[at], pairing) || !same_name(old, now[at])))
      ++at;
    if (at == now.size()) {
      drifts.push_back(std::move(drift));
      continue;
    }
    paired[at] = true;
    const ProbePoint& point = now[at];
    const bool same_place = point.offset ? old.offset == point.offset->value : !old.offset;
    if (point.image_offset.value == old.image_offset && same_place) continue;
    drift.change = point.image_offset.value == old.image_offset ? Change::archive_moved
                                                                : Change::function_moved;
    drift.found = hex(shown_offset(point));
    drifts.push_back(std::move(drift));
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (paired[i]) continue;
    drifts.push_back({.change = Change::added,
                      .target = target,
                      .request = now[i].request,
                      .symbol = now[i].symbol,
                      .recorded = std::nullopt,
                      .found = hex(shown_offset(now[i]))});
  }
  return drifts;
}

} // namespace uprobectl
