// SPDX-License-Identifier: Apache-2.0
// Compares what can be probed in two builds of a program, a library or an archive.
#pragma once

#include "output/recorded_match.hpp"
#include "output/verdict.hpp"

namespace uprobectl {

// What a record of the point says.
RecordedMatch record_of(const ProbePoint& point);

struct DiffRequest {
  std::string old_target;
  std::string new_target;
  // FUNCTIONs, PROVIDER:NAME, and patterns of both. Empty: everything.
  std::vector<std::string> patterns = {};
  bool with_details = false; // also types, members, exits and code
  TargetOptions old_options = {};
  TargetOptions new_options = {};
};

// Compares functions and static probes by name, and whether the libraries can be mapped with pages
// of 16 KiB. Libraries of archives are paired by ABI and name: those of an APK with those of an
// app bundle. Reports what cannot be read.
Verdict diff_builds(const DiffRequest& request, Output& output);

} // namespace uprobectl
