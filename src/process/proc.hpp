// The files of /proc and /sys, and of whatever stands in for them in a test.
#pragma once

#include "uprobectl/util.hpp"

#include <sys/types.h>

namespace uprobectl {

// "/proc/PID/NAME".
std::string proc_path(pid_t pid, std::string_view name);

// The whole text. Such files have no size that stat would tell: it is read until its end.
Result<std::string> read_pseudo_file(const std::string& path);

// For whom it makes no difference why there is none.
std::optional<std::string> pseudo_file_text(const std::string& path);

// The files of /proc/PID that say who a process is, taken apart.
// Source: Linux Documentation/filesystems/proc.rst (stat, status).

// The parent in a line of /proc/PID/stat, "PID (COMM) STATE PPID …". COMM may hold anything,
// spaces, parentheses and newlines included: it ends at the last parenthesis.
std::optional<pid_t> parse_parent(std::string_view stat);
// Its 22nd field: when the process began, in clock ticks since boot.
std::optional<std::uint64_t> parse_start_time(std::string_view stat);

// Of /proc/PID/status: the first number of the line "Uid:", the last one of "NSpid:".
std::optional<uid_t> parse_user(std::string_view status);
std::optional<pid_t> parse_innermost_pid(std::string_view status);

// The processes below `ancestor`, ascending, by (process, parent).
std::vector<pid_t> descendants(pid_t ancestor, std::span<const std::pair<pid_t, pid_t>> parents);

} // namespace uprobectl
