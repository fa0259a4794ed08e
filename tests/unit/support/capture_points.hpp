// SPDX-License-Identifier: Apache-2.0
// Points of probes, for tests of what is captured there.
#pragma once

#include "events/plan.hpp"

namespace uprobectl {

inline std::vector<events::CapturePoint> capture_points(std::span<const resolve::ProbePoint> points,
                                                        events::CodeAbi code = {}) {
  std::vector<events::CapturePoint> result;
  for (const resolve::ProbePoint& point : points) result.push_back({.point = &point, .code = code});
  return result;
}

// By probe.
inline std::vector<std::uint32_t> plans_of(const events::CapturePlan& plan, std::size_t probes) {
  std::vector<std::uint32_t> result;
  for (std::size_t i = 0; i < probes; ++i) result.push_back(plan.probe_plan(i));
  return result;
}

} // namespace uprobectl
