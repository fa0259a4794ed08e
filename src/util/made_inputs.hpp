// SPDX-License-Identifier: Apache-2.0
// Inputs that the workstation makes when a run on a device reads them. Shared by both, which do not
// know each other's modules.
#pragma once

#include <string_view>

namespace uprobectl {

// Reading PREFIX + a build (AskedBuild, trace/planned_probes.hpp) as a file of the workstation asks
// it for a plan of the run's functions in that build. A workstation with symbols has PREFIX itself
// among the inputs of the run.
constexpr std::string_view planned_build_prefix = "plan-of-build:";

// The same for --debuginfod: PREFIX + a build id is its debug file, PREFIX + a build id + ":" + an
// absolute path a source file.
constexpr std::string_view downloaded_prefix = "debuginfod:";

// Among the inputs of a run with --unwind-on host: the workstation takes the saved run instead of
// the records, and makes of it what the options of the run ask for.
constexpr std::string_view taken_run_name = "saved-run:";

// Reading PREFIX + the SHA-256 of unwind::KeptParts succeeds if the workstation has them.
constexpr std::string_view kept_parts_prefix = "kept-parts:";

// Whether the path is a download, and not one that is searched beside it.
constexpr bool is_download(std::string_view path) {
  if (!path.starts_with(downloaded_prefix)) return false;
  path.remove_prefix(downloaded_prefix.size());
  const auto end = path.find_first_not_of("0123456789abcdef");
  return end == std::string_view::npos || path.substr(end).starts_with(":/");
}

} // namespace uprobectl
