// What a person should know about functions that share code or name with the probed one.
#pragma once

#include "uprobectl/resolve.hpp"

#include <span>

namespace uprobectl {

// Warns of clones that are not probed and of functions folded to the same address. with_clones: the
// clones are among the points.
void warn_of_kin(const Kin& kin, bool with_clones, std::span<ProbePoint> points);

} // namespace uprobectl
