// One of the system's own commands, run for what it prints.
#pragma once

#include "uprobectl/base.hpp"

#include <chrono>

namespace uprobectl {

struct CommandResult {
  std::string output; // stdout
  std::string errors; // stderr
  int exit_code = 0;  // as a shell has it: 128 + N where signal N ended it
};

// Runs the program, found in PATH, without a shell: no word of it is anything but an argument. Its
// stdin is empty. not_found if there is no such program; io if it takes longer than this or prints
// more than 1 MiB, after which it is killed with all it has started.
Result<CommandResult> run_command(const std::vector<std::string>& words,
                                  std::chrono::milliseconds patience);

} // namespace uprobectl
