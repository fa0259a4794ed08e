// Text that a person can paste into a shell.
#pragma once

#include <string>
#include <string_view>

namespace uprobectl {

// The text as one shell word: in single quotes if any character means something to a shell
// (interactive bash expands "!/" of ARCHIVE!/ENTRY, too).
std::string shell_word(std::string_view text);

} // namespace uprobectl
