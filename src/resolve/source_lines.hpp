// SPDX-License-Identifier: Apache-2.0
// Resolves source lines: FILE:LINE and FUNCTION:+LINE.
#pragma once

#include "dwarf/dwarf.hpp"
#include "resolve/point.hpp"

namespace uprobectl::resolve {

// Returns the points of FILE:LINE, or of FUNCTION:+LINE if the query is one. `functions`: the
// points of that FUNCTION. The query has a symbolizer.
Result<std::vector<ProbePoint>> resolve_lines(const Query& query, const dwarf::DebugInfo& debug,
                                              std::span<const ProbePoint> functions);

// Whether the address is in an executable segment.
bool is_in_code(const elf::Image& image, VirtualAddress address);

} // namespace uprobectl::resolve
