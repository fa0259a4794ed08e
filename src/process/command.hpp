// SPDX-License-Identifier: Apache-2.0
// One of the system's own commands, run for what it prints.
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <functional>

namespace uprobectl {

struct CommandResult {
  std::string output; // stdout
  std::string errors; // stderr
  int exit_code = 0;  // as a shell has it: 128 + N where signal N ended it
};

// Runs the program, found in PATH, without a shell: no word of it is anything but an argument. Its
// stdin is empty. not_found if there is no such program; io if it takes longer than this, prints
// more than 1 MiB on one of them or we are asked to end (SIGINT, SIGTERM, SIGHUP) meanwhile. What
// it has left running at its end, or then, is killed; what that has printed is waited for as long
// as more of it comes each second.
Result<CommandResult> run_command(const std::vector<std::string>& words,
                                  std::chrono::milliseconds patience);

// The same for a command of Android, which is run from /system/bin and with a PATH of the system's
// folders: root must not run what somebody has put into PATH.
Result<CommandResult> run_android_command(std::vector<std::string> words,
                                          std::chrono::milliseconds patience);

// The same for what prints much: stdout is handed on as it comes, up to so many bytes, and `output`
// is empty. Where take() returns false the command is killed, an io error.
Result<CommandResult> stream_command(const std::vector<std::string>& words,
                                     std::chrono::milliseconds patience, std::size_t most,
                                     const std::function<bool(std::string_view chunk)>& take);

} // namespace uprobectl
