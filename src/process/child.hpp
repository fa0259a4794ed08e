// What starting a process of our own takes on the parent's side: a pipe to it, and its end.
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <sys/types.h>

namespace uprobectl {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

// Neither end is handed on to what is executed.
Result<Pipe> make_pipe();

// How a child has ended.
struct ChildEnd {
  int status = 0; // what it passed to exit; 0 if a signal ended it
  int signal = 0; // which ended it; 0 if it called exit

  // As shells have it: 128 + the signal.
  int shell_status() const { return signal != 0 ? 128 + signal : status; }
};

// Reaps the child. Nothing if it is no child of ours, or has been reaped.
std::optional<ChildEnd> wait_for(pid_t child);

// Waits so long at most, with 0 not at all. Nothing if the child still runs.
std::optional<ChildEnd> wait_for(pid_t child, std::chrono::milliseconds patience);

} // namespace uprobectl
