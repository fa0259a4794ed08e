// SPDX-License-Identifier: Apache-2.0
// Runs a command of the system and captures its output.
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <functional>

namespace uprobectl::process {

struct CommandResult {
  std::string output; // stdout
  std::string errors; // stderr
  int exit_code = 0;  // as a shell reports it: 128 + N if signal N ended it
};

// Whether a command shall be killed. Asked every 100 ms while it runs.
using IsInterrupted = std::function<bool()>;

// Runs a program from PATH with an empty stdin, without a shell. When the program has ended, waits
// for output of processes that it left running until none comes for a second, then kills them.
// Errors: not_found if there is no such program; io after the timeout or more than 1 MiB on stdout
// or stderr; interrupted after a SIGINT, SIGTERM or SIGHUP to this thread, or if is_interrupted()
// says so (another thread may have received the signal). The program is then killed with its
// children.
Result<CommandResult> run_command(const std::vector<std::string>& words,
                                  std::chrono::milliseconds timeout,
                                  const IsInterrupted& is_interrupted = {});

// Runs a command of Android from /system/bin with a PATH of system directories, because PATH may
// contain directories that other users can write.
Result<CommandResult> run_android_command(std::vector<std::string> words,
                                          std::chrono::milliseconds timeout);

// Runs a command with large output: passes stdout to `take` in chunks and leaves `output` empty. If
// there are more than `max_size` bytes, or if take() returns false, the command is killed (io).
Result<CommandResult> stream_command(const std::vector<std::string>& words,
                                     std::chrono::milliseconds timeout, std::size_t max_size,
                                     const std::function<bool(std::string_view chunk)>& take);

} // namespace uprobectl::process
