// SPDX-License-Identifier: Apache-2.0
// Shared by runs on devices and their workstation, which do not know each other's modules.
#pragma once

#include <string_view>

namespace uprobectl {

// Reading PREFIX + a build (AskedBuild, trace/planned_probes.hpp) as a file of the workstation asks
// it for a plan of the run's functions in that build. A workstation with symbols has PREFIX itself
// among the inputs of the run.
constexpr std::string_view planned_build_prefix = "plan-of-build:";

} // namespace uprobectl
