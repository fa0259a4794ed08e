// The comparison itself, over values.
#pragma once

#include "verify/verify.hpp"

namespace uprobectl {

// Whether a request was asked in one file, which may have another name by now, or in several, of
// which each is compared with itself: the same entry, and where there is none the same file.
enum class Pairing { in_one_file, in_each_file };
bool are_paired(const RecordedMatch& then, const ProbePoint& now, Pairing pairing);

// What differs between the matches of one request then and its points now. target is where it was
// asked now.
std::vector<DriftRecord> compare_matches(std::span<const RecordedMatch> then,
                                         std::span<const ProbePoint> now, const std::string& target,
                                         Pairing pairing);

} // namespace uprobectl
