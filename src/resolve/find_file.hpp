// SPDX-License-Identifier: Apache-2.0
// Finds the file that a TARGET means: by its path, as a library or program of that name, or as the
// traced processes see it. Opens a file only if its contents decide.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

// The one file that the text means; its entry may still be a pattern.
Result<TargetFile> find_file(std::string_view text, const TargetOptions& options);

// The error for a name that several files have: lists at most ten of them.
Error ambiguous_target(std::string_view text, const std::vector<std::string>& candidates);

} // namespace uprobectl
