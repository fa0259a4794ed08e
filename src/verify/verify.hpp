// SPDX-License-Identifier: Apache-2.0
// Resolves recorded requests again and reports what has changed: for CI jobs that check offsets
// across builds.
#pragma once

#include "output/output.hpp"
#include "verify/recorded_match.hpp"

#include <functional>
#include <map>

namespace uprobectl::verify {

// The files that are verified instead of recorded ones, by the normalized path of the recorded
// target. A file under an empty path replaces all.
using TargetReplacements = std::map<std::string, std::string>;
// Makes the matches refer to the files that replace theirs. In the archive that replaces another
// one, they refer to the same libraries.
void retarget(std::span<RecordedMatch> matches, const TargetReplacements& targets);
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
  resolve::TargetOptions target_options; // for example the debug files of stripped binaries
  bool unsafe = false;                   // see ResolveOptions::unsafe
  bool with_added = true;                // matches that were not recorded are findings, too
  // Sets ProbePoint::details as the record has them; by default as records of `resolve` have them.
  std::function<void(resolve::ProbePoint&)> read_details = {};
};

// The result of a verification.
struct VerifyOutcome {
  output::Verdict verdict = {};
  std::vector<resolve::ProbePoint> points = {}; // the current matches, in recorded order
  std::size_t unresolved = 0;                   // requests that no longer match anything
};

// Resolves each (target, request) of the record again. Recorded and current matches are paired by
// symbol and version. A function with a different offset in its image is function_moved. If only
// the offset of its archive entry differs, it is archive_moved. If a request has no match, its
// recorded matches are gone. If an archive has no such entry, its library is gone. Matches that
// cannot be checked are not_checked: one finding for each library. Reports why.
VerifyOutcome verify_matches(const VerifyRequest& request, output::Output& output);

// How a target selects files, which decides which matches may be paired.
enum class Pairing {
  in_one_file,  // one file, which may have another name now
  in_each_file, // several files: match in the same archive entry, or else in the same file
};
// Whether both matches may be of the same file.
bool are_paired(const RecordedMatch& recorded, const resolve::ProbePoint& current, Pairing pairing);

// Sets file, entry and ABI of a finding to those of the point.
void set_file(output::Finding& finding, const resolve::ProbePoint& point, Pairing pairing);
// Returns Android's name of the ABI of an entry: "lib/arm64-v8a/libfoo.so".
std::optional<std::string> abi_of(const std::optional<std::string>& entry);
// Returns what an entry has in common with that of the same library in another archive: in an app
// bundle "base/lib/arm64-v8a/libfoo.so" is "lib/arm64-v8a/libfoo.so" of the APK.
std::string library_key(std::string_view entry);

// Removes matches that are other names of a recorded function: records of earlier versions have one
// name of each, so they are not new.
void drop_other_names(std::span<const RecordedMatch> recorded,
                      std::vector<resolve::ProbePoint>& current, Pairing pairing);

// Returns the differences between the recorded and the current matches of one request. `target` is
// the target of the current ones.
std::vector<output::Finding> compare_matches(std::span<const RecordedMatch> recorded,
                                             std::span<const resolve::ProbePoint> current,
                                             const std::string& target, Pairing pairing);
// Adds the differences to the verdict, and the matches without differences. `first`: index of the
// first match.
void add_comparison(std::span<const RecordedMatch> recorded,
                    std::span<const resolve::ProbePoint> current, const std::string& target,
                    Pairing pairing, std::size_t first, output::Verdict& verdict,
                    bool with_added = true);

} // namespace uprobectl::verify
