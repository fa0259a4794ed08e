// SPDX-License-Identifier: Apache-2.0
// Leaves out probes that cannot be attached as requested.
#pragma once

#include "trace/probes.hpp"

namespace uprobectl::trace {

// Why a site cannot be probed. Matches of a pattern are counted by the reason.
struct SiteProblem {
  Error error;
  std::string reason;
};
using FindSiteProblem =
    std::function<std::optional<SiteProblem>(const Probe& probe, const PlannedSite& site)>;

// Removes probes (static ones as a whole) with a site that has a problem. This is a failure for a
// FUNCTION that was named. Matches of a pattern are skipped with one warning for each reason; if
// none remains, the pattern fails.
void skip_probes(ResolvedProbes& resolved, const FindSiteProblem& find_problem,
                 output::Output& output);

} // namespace uprobectl::trace
