// SPDX-License-Identifier: Apache-2.0
// Compares what can be probed in two builds of a program, a library or an archive.
#pragma once

#include "output/verdict.hpp"

namespace uprobectl::output {
class Output;
} // namespace uprobectl::output

namespace uprobectl::verify {

struct DiffRequest {
  std::string old_target;
  std::string new_target;
  // FUNCTIONs, PROVIDER:NAME, and patterns of both. Empty: everything.
  std::vector<std::string> patterns = {};
  bool with_details = false; // also types, members, exits and code
  resolve::TargetOptions old_options = {};
  resolve::TargetOptions new_options = {};
};

// Compares functions and static probes by name, and whether the libraries can be mapped with pages
// of 16 KiB. Libraries of archives are paired by ABI and name: those of an APK with those of an
// app bundle. Reports what cannot be read.
output::Verdict diff_builds(const DiffRequest& request, output::Output& output);

} // namespace uprobectl::verify
