#include "verify/compare.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace uprobectl {

namespace {

using Change = DriftRecord::Change;

bool same_name(const RecordedMatch& then, const ProbePoint& now) {
  return then.symbol == now.symbol && then.version == now.version &&
         then.symbol_offset == now.symbol_offset;
}

std::string hex_text(std::uint64_t value) { return fmt::format("{:#x}", value); }

// Which of the points now each recorded one has become; now.size() where none. Of several places
// with one name the first that is left: both lists are in order of offset. The places of a static
// probe, of which code that is taken away leaves the others, are paired with themselves first.
std::vector<std::size_t> pairs_of(std::span<const RecordedMatch> then,
                                  std::span<const ProbePoint> now, Pairing pairing) {
  std::vector<std::size_t> pairs(then.size(), now.size());
  std::vector<bool> paired(now.size(), false);
  const auto pair = [&](std::size_t old, bool same_place) {
    for (std::size_t i = 0; i < now.size() && pairs[old] == now.size(); ++i) {
      if (paired[i] || !same_name(then[old], now[i]) || !are_paired(then[old], now[i], pairing))
        continue;
      if (same_place && then[old].image_offset != now[i].image_offset.value) continue;
      pairs[old] = i;
      paired[i] = true;
    }
  };
  for (std::size_t old = 0; old < then.size(); ++old)
    if (then[old].static_probe) pair(old, true);
  for (std::size_t old = 0; old < then.size(); ++old) pair(old, false);
  return pairs;
}

// What differs of a place, and of a static probe's semaphore and arguments. A semaphore is compared
// by its address: that it went along with its archive entry the place tells.
std::vector<DriftRecord> differences(const RecordedMatch& old, const ProbePoint& point,
                                     const DriftRecord& about) {
  std::vector<DriftRecord> drifts;
  const auto add = [&](Change change, std::string recorded, std::string found) {
    DriftRecord drift = about;
    drift.change = change;
    drift.recorded = std::move(recorded);
    drift.found = std::move(found);
    drift.further = !drifts.empty();
    drifts.push_back(std::move(drift));
  };
  const bool same_image_place = point.image_offset.value == old.image_offset;
  const bool same_place = point.offset ? old.offset == point.offset->value : !old.offset;
  if (!same_image_place || !same_place)
    add(same_image_place ? Change::archive_moved : Change::function_moved,
        hex_text(old.offset.value_or(old.image_offset)), hex_text(shown_offset(point)));
  if (!old.static_probe || !point.static_probe) return drifts;
  const StaticProbe& probe = *point.static_probe;
  const auto semaphore = probe.semaphore ? std::optional(probe.semaphore->value) : std::nullopt;
  const auto shown = [](const std::optional<std::uint64_t>& address) {
    return address ? hex_text(*address) : "none";
  };
  if (old.static_probe->semaphore_address != semaphore)
    add(Change::semaphore_moved, shown(old.static_probe->semaphore_address), shown(semaphore));
  if (old.static_probe->raw_arguments != probe.raw_arguments)
    add(Change::arguments, old.static_probe->raw_arguments, probe.raw_arguments);
  return drifts;
}

} // namespace

bool are_paired(const RecordedMatch& then, const ProbePoint& now, Pairing pairing) {
  if (pairing == Pairing::in_one_file) return true;
  return then.entry == now.binary->path.entry && (then.entry || then.file == now.binary->real_path);
}

std::vector<DriftRecord> compare_matches(std::span<const RecordedMatch> then,
                                         std::span<const ProbePoint> now, const std::string& target,
                                         Pairing pairing) {
  std::vector<DriftRecord> drifts;
  const std::vector<std::size_t> pairs = pairs_of(then, now, pairing);
  std::vector<bool> paired(now.size(), false);
  for (std::size_t i = 0; i < then.size(); ++i) {
    const RecordedMatch& old = then[i];
    DriftRecord drift{.change = Change::gone,
                      .target = target,
                      .request = old.request,
                      .symbol = old.symbol,
                      .recorded = hex_text(old.offset.value_or(old.image_offset)),
                      .found = std::nullopt};
    if (pairs[i] == now.size()) {
      drifts.push_back(std::move(drift));
      continue;
    }
    paired[pairs[i]] = true;
    const ProbePoint& point = now[pairs[i]];
    std::ranges::move(differences(old, point, drift), std::back_inserter(drifts));
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (paired[i]) continue;
    drifts.push_back({.change = Change::added,
                      .target = target,
                      .request = now[i].request,
                      .symbol = now[i].symbol,
                      .recorded = std::nullopt,
                      .found = hex_text(shown_offset(now[i]))});
  }
  return drifts;
}

} // namespace uprobectl
