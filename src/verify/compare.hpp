// The comparison itself, over values.
#pragma once

#include "uprobectl/verify.hpp"

namespace uprobectl {

// What differs between the matches of one request then and its points now. target is where it was
// asked now.
std::vector<DriftRecord> compare_matches(std::span<const RecordedMatch> then,
                                         std::span<const ProbePoint> now,
                                         const std::string& target);

} // namespace uprobectl
