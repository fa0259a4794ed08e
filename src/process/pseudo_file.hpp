// The files of /proc and /sys, and of whatever stands in for them in a test.
#pragma once

#include "uprobectl/base.hpp"

namespace uprobectl {

// "/proc/PID/NAME".
std::string proc_path(pid_t pid, std::string_view name);

// The whole text. Such files have no size that stat would tell: it is read until its end.
Result<std::string> read_pseudo_file(const std::string& path);

// For whom it makes no difference why there is none.
std::optional<std::string> pseudo_file_text(const std::string& path);

} // namespace uprobectl
