// SPDX-License-Identifier: Apache-2.0
// Helpers of a parent process: pipes, waiting for a child, and process handles (pidfd).
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <poll.h>
#include <sys/types.h>
#include <vector>

namespace uprobectl::process {

// Both ends of a pipe.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

// Creates a pipe. Both ends are closed by execve (O_CLOEXEC).
Result<Pipe> make_pipe();

// How a child has ended.
struct ChildEnd {
  int status = 0; // its exit status; 0 if a signal ended it
  int signal = 0; // the signal that ended it; 0 if it exited

  // The status as a shell reports it: 128 + signal, or the exit status.
  int shell_status() const { return signal != 0 ? 128 + signal : status; }
};

// Waits for the child and reaps it. Returns nullopt if the pid is not a child, or was reaped
// before.
std::optional<ChildEnd> wait_for(pid_t child);

// Waits for at most `timeout`; 0 does not wait. Returns nullopt if the child still runs.
std::optional<ChildEnd> wait_for(pid_t child, std::chrono::milliseconds timeout);

// Calls pidfd_open(2). Sets errno on failure: ENOSYS before Linux 5.3; ESRCH, EINVAL or ENOENT if
// there is no such process, or the pid is that of a thread.
UniqueFd open_pidfd(pid_t pid);

// Refers to a process by a pidfd, so that a later process with the same pid is not mistaken for it.
class ProcessHandle {
public:
  explicit ProcessHandle(pid_t pid);

  pid_t pid() const { return pid_; }
  // The errno of open_pidfd(); 0 on success.
  int open_error() const { return open_error_; }
  // Checks the pid alone if open_pidfd() failed.
  bool has_ended() const;
  // Adds the pidfd, if there is one. It is readable when the process has ended.
  void add_to(std::vector<pollfd>& polled) const;

private:
  pid_t pid_;
  UniqueFd fd_;
  int open_error_;
};

} // namespace uprobectl::process
