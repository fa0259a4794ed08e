// SPDX-License-Identifier: Apache-2.0
// The inlined instances of functions as points to probe.
#pragma once

#include "resolve/point.hpp"

namespace uprobectl::resolve {

// Adds the inlined instances (ResolveOptions::inlined) to the points of a name, by address. Without
// the option, the error for a function that exists only inlined says so. `found`: the result so
// far.
ResolvedFunction with_inlined(const Query& query, ResolvedFunction found);

// For a name that no symbol has: returns the error that the function exists only inlined; nullopt
// if the debug information does not have it either.
std::optional<Error> only_inlined_error(const Query& query);

} // namespace uprobectl::resolve
