// What starting a process of our own takes on the parent's side: a pipe to it, and its end.
#pragma once

#include "uprobectl/base.hpp"

#include <chrono>
#include <sys/types.h>

namespace uprobectl {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

// Neither end is handed on to what is executed.
Result<Pipe> make_pipe();

// Reaps the child: its exit status as shells have it, 128 + N where signal N ended it. Nothing if
// it is no child of ours, or has been reaped.
std::optional<int> wait_for(pid_t child);

// Waits so long at most, with 0 not at all. Nothing if the child still runs.
std::optional<int> wait_for(pid_t child, std::chrono::milliseconds patience);

} // namespace uprobectl
