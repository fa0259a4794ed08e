// SPDX-License-Identifier: Apache-2.0
// Finds the file that a TARGET means: by its path, as an installed library or program, or in the
// traced processes. Opens a file only if its contents are needed to choose.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl::resolve {

// Returns the one file that the text means. Its entry may be a pattern, not expanded yet.
Result<TargetFile> find_file(std::string_view text, const TargetOptions& options);

// Finds a library of an archive by its file name, "base.apk!libfoo.so". Returns nullopt if the text
// has no existing archive before a '!'.
std::optional<Result<TargetFile>> find_in_archive(std::string_view text,
                                                  const std::optional<std::string>& abi);

// Returns the error for a name that several files have. It lists at most ten of them.
Error ambiguous_target(std::string_view text, const std::vector<std::string>& candidates);

} // namespace uprobectl::resolve
