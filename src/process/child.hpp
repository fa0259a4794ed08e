// SPDX-License-Identifier: Apache-2.0
// What starting a process of our own takes on the parent's side: a pipe to it, and its end.
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <poll.h>
#include <sys/types.h>
#include <vector>

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

// Processes held by pidfd_open(2): a later process of the same number is not mistaken for one.

// Sets errno on failure: ENOSYS before Linux 5.3; ESRCH, EINVAL or ENOENT if there is no such
// process, or the number is that of a thread.
UniqueFd open_pidfd(pid_t pid);

class ProcessHandle {
public:
  explicit ProcessHandle(pid_t pid);

  pid_t pid() const { return pid_; }
  // The errno of open_pidfd(); 0 if the process is held.
  int open_error() const { return open_error_; }
  // Goes by the number alone if the process could not be held.
  bool has_ended() const;
  // Readable when it has ended.
  void add_to(std::vector<pollfd>& polled) const;

private:
  pid_t pid_;
  UniqueFd fd_;
  int open_error_;
};

} // namespace uprobectl
