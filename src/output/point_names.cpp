// SPDX-License-Identifier: Apache-2.0
#include "output/point_names.hpp"

#include <fmt/format.h>

namespace uprobectl::output {

const std::string& PointNames::file(const resolve::ProbePoint& point) {
  if (binary_ != point.binary) file_ = to_string(point.binary->path);
  binary_ = point.binary;
  return file_;
}

const PointNames::Names& PointNames::find(const resolve::ProbePoint& point) {
  const auto [known, is_new] = known_.try_emplace(&point);
  Names& names = known->second;
  if (!is_new) return names;
  names.distinction = find_distinction(point);
  names.name = display_name(point);
  if (point.source) names.name += " at " + display_source(point, false);
  names.name += names.distinction;
  return names;
}

std::string PointNames::find_distinction(const resolve::ProbePoint& point) {
  if (!point.symbol || point.static_probe) return {}; // a static probe has any number of points
  const auto [known, is_new] = first_points_.try_emplace(
      display_name(point), FirstPoint{to_string(point.binary->path), point.address.value});
  const FirstPoint& first = known->second;
  if (is_new || point.source || point.inlined_into) return {};
  if (first.file != file(point)) return fmt::format(" ({})", file(point));
  return first.address == point.address.value ? "" : fmt::format(" ({:#x})", point.address.value);
}

} // namespace uprobectl::output
