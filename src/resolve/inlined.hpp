// SPDX-License-Identifier: Apache-2.0
// The inlined instances of functions as points to probe.
#pragma once

#include "dwarf/dwarf.hpp"
#include "resolve/point.hpp"

#include <functional>

namespace uprobectl {

// Returns the debug information of the query's image, opened at the first call.
using DebugInfoSource = std::function<const Result<dwarf::DebugInfo>&()>;

// Adds the inlined instances (ResolveOptions::inlined) to the points of a name, by address. Without
// the option, the error for a function that exists only inlined says so. `points`: the result so
// far.
Result<std::vector<ProbePoint>> with_inlined(const Query& query, const DebugInfoSource& debug,
                                             Result<std::vector<ProbePoint>> points);

} // namespace uprobectl
