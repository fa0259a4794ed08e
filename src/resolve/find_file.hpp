// Which file a TARGET means: by its path, as a library or program of that name, or as the probed
// processes see it. Opens nothing but what has to be looked into for that.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

// The one file that the text means; its entry may still be a pattern.
Result<TargetFile> find_file(std::string_view text, const TargetOptions& options);

// A name that means one file is that of several: lists ten of them at the most.
Error ambiguous_target(std::string_view text, const std::vector<std::string>& candidates);

} // namespace uprobectl
