// SPDX-License-Identifier: Apache-2.0
// A command that a run starts itself. It is suspended before its first instruction until the probes
// are attached, so that no call is missed.
#pragma once

#include "process/child.hpp"
#include "trace/trace.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <sys/types.h>
#include <unistd.h>

namespace uprobectl::trace {

// The stdout of a command.
struct CommandStdout {
  // Opens the file of the request. `records` is the output of the run.
  static Result<CommandStdout> open(const CommandOutput& request, output::Output& records);

  // nullopt: the command inherits our stdout.
  std::optional<int> fd() const {
    if (file) return file.get();
    return is_stderr ? std::optional(STDERR_FILENO) : view_fd;
  }

  UniqueFd file;
  std::optional<int> view_fd = {}; // see CommandOutput
  bool is_stderr = false;          // automatic choice: records go to stdout
};

// Owns the child process: kills it if it was not released, and reaps it when it ends.
class SuspendedChild {
public:
  // Forks. The child has default signal dispositions and exits if we end before it is released.
  // Its stdout is that of `output`, or ours. Call this before signals are blocked. `own_session`:
  // lets the child stay stopped when we exit: the kernel kills stopped children in our session.
  static Result<SuspendedChild> start(const std::vector<std::string>& words,
                                      const CommandStdout& output, bool own_session = false);

  SuspendedChild(SuspendedChild&& other) noexcept;
  SuspendedChild(const SuspendedChild&) = delete;
  SuspendedChild& operator=(SuspendedChild&&) = delete;
  SuspendedChild& operator=(const SuspendedChild&) = delete;
  ~SuspendedChild();

  pid_t pid() const { return pid_; }

  // Executes the command, found through PATH, in the same process: its pid does not change. Fails
  // with not_found, not_permitted, ... if it cannot be executed.
  Result<void> release();

  struct End : process::ChildEnd {
    bool got_sigterm = false; // the child ended after we sent SIGTERM
  };
  // Returns how the child ended. Sends SIGTERM if it still runs; returns nullopt if it does not end
  // within 2 s.
  std::optional<End> end();

  // Sends SIGCONT.
  void resume() const;

private:
  SuspendedChild(std::string name, pid_t pid, UniqueFd go, UniqueFd failure);
  // Waits for the child to end; without a timeout, as long as it takes.
  std::optional<process::ChildEnd> reap(std::optional<std::chrono::milliseconds> timeout = {});

  std::string name_;
  pid_t pid_ = -1;           // -1 once reaped
  UniqueFd release_pipe_;    // a byte releases the child; closing it makes the child exit
  UniqueFd exec_error_pipe_; // carries the errno of execvp; a successful execvp closes it
};

} // namespace uprobectl::trace
