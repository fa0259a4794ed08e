// Keeps probes away from instructions that they would harm, or that the kernel refuses.
#pragma once

#include "session/resolving.hpp"

namespace uprobectl {

// Whether the point is one of many that a pattern stands for, which nobody has named by itself.
bool is_of_pattern(const ProbePoint& point);

// Takes away the points that have a site at such an instruction, and a static probe's with all of
// its places. For a FUNCTION that names them this is a failure; of a pattern's they are left out
// with one warning for each reason, unless none is left.
void leave_out_unprobeable(Resolved& resolved, const Reporter& reporter);

} // namespace uprobectl
