// SPDX-License-Identifier: Apache-2.0
// Resolves recorded requests again and reports what has changed: for CI jobs that check offsets
// across builds.
#pragma once

#include "output/output.hpp"
#include "output/recorded_match.hpp"

#include <map>

namespace uprobectl {

// The files that are verified instead of recorded ones, by the normalized path of the recorded
// target. One without a path replaces all.
using TargetReplacements = std::map<std::string, std::string>;
// Pairs the TARGETs of the command line with the recorded files. One TARGET replaces all of them.
// Each of several replaces the file of its name. If one TARGET and one file are left, they belong
// together. Fails with usage and lists what is left otherwise.
Result<TargetReplacements> replace_targets(std::span<const RecordedMatch> recorded,
                                           std::span<const std::string> targets);

// Recorded matches and how to resolve them again.
struct VerifyRequest {
  std::vector<RecordedMatch> recorded;
  // Replaces the files of the recorded targets; the entry in an archive stays the same.
  TargetReplacements targets;
  TargetOptions target_options; // for example the debug files of stripped binaries
  bool unsafe = false;          // see ResolveOptions::unsafe
};

// The result of a verification.
struct VerifyOutcome {
  std::vector<DriftRecord::Change> changes; // one for each reported record
  std::size_t changed = 0;                  // recorded matches with at least one change
  std::vector<ProbePoint> points;           // the current matches, in recorded order
  std::size_t unresolved = 0;               // requests that no longer match anything
  // Recorded matches whose file cannot be read, or lacks the symbols that it had. Not in `changed`.
  std::size_t not_checked = 0;
};

// Resolves each (target, request) of the record again, and writes a DriftRecord for each change.
// Recorded and current matches are paired by symbol and version. A function with a different offset
// in its image is function_moved. If only the offset of its archive entry differs, it is
// archive_moved. If a request has no match, its recorded matches are gone. Matches that cannot be
// checked are not_checked, one record for each file.
VerifyOutcome verify_matches(const VerifyRequest& request, Output& output);

// How a target selects files, which decides which matches may be paired.
enum class Pairing {
  in_one_file,  // one file, which may have another name now
  in_each_file, // several files: match in the same archive entry, or else in the same file
};
// Whether both matches may be of the same file.
bool are_paired(const RecordedMatch& recorded, const ProbePoint& current, Pairing pairing);

// Returns the differences between the recorded and the current matches of one request. `target` is
// the target of the current ones.
std::vector<DriftRecord> compare_matches(std::span<const RecordedMatch> recorded,
                                         std::span<const ProbePoint> current,
                                         const std::string& target, Pairing pairing);

} // namespace uprobectl
