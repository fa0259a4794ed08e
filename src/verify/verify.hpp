// SPDX-License-Identifier: Apache-2.0
// Whether what was resolved once still holds: for CI jobs that guard offsets across rebuilds.
#pragma once

#include "output/output.hpp"
#include "output/recorded_match.hpp"

namespace uprobectl {

// A recorded request and where it is to be asked again.
struct VerifyRequest {
  std::vector<RecordedMatch> recorded;
  std::optional<std::string> target; // asked here instead of in the recorded targets, entry kept
  TargetOptions target_options;      // symbols of stripped files may need the same places again
  bool unsafe = false;               // places that only ResolveOptions::unsafe takes, too
};

struct VerifyOutcome {
  std::vector<DriftRecord::Change> changes; // each that was found, as often as it was
  std::size_t changed = 0;                  // recorded matches that something differs of
  std::vector<ProbePoint> points;           // what the requests give now, in recorded order
  std::size_t unresolved = 0;               // requests that find nothing any more
};

// Asks every (target, request) of the record once more and reports what differs. Matches are
// paired by symbol and version. A function that lies elsewhere in its image is function_moved; one
// that only went along with its archive entry is archive_moved; a request that finds nothing any
// more makes its matches gone.
VerifyOutcome verify_matches(const VerifyRequest& request, Output& output);

// The comparison itself, over values.

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
