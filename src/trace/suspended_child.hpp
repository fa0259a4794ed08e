// SPDX-License-Identifier: Apache-2.0
// A command that a run starts itself: held back before its first instruction until the probes are
// in place, so that not one call is missed.
#pragma once

#include "process/child.hpp"
#include "trace/trace.hpp"
#include "uprobectl/util.hpp"

#include <chrono>
#include <sys/types.h>
#include <unistd.h>

namespace uprobectl {

// Where the stdout of a command goes.
struct CommandStdout {
  // Opens the file of the request. `records`: the descriptor that records are written to.
  static Result<CommandStdout> open(const CommandOutput& wanted, int records);

  // Empty: to ours.
  std::optional<int> fd() const {
    if (file) return file.get();
    return is_stderr ? std::optional(STDERR_FILENO) : std::nullopt;
  }

  UniqueFd file;
  bool is_stderr = false; // though nobody asked for it
};

// Owns the child process: what has not been let go is killed, what has ended is reaped.
class SuspendedChild {
public:
  // Forks. The child has the default signal dispositions of a command, whatever ours are, and ends
  // by itself should we be killed before it is let go. Its stdout is `output`, or ours where that
  // is empty. Call before signals are blocked.
  static Result<SuspendedChild> start(const std::vector<std::string>& words,
                                      std::optional<int> output);

  SuspendedChild(SuspendedChild&& other) noexcept;
  SuspendedChild(const SuspendedChild&) = delete;
  SuspendedChild& operator=(SuspendedChild&&) = delete;
  SuspendedChild& operator=(const SuspendedChild&) = delete;
  ~SuspendedChild();

  pid_t pid() const { return pid_; }

  // Lets it run, found through PATH: the same process, so that what is filtered by its pid stays
  // with it. not_found, not_permitted, ... where it cannot be executed.
  Result<void> release();

  struct End : ChildEnd {
    bool got_sigterm = false; // by us, with SIGTERM
  };
  // How it has ended. One that still runs is asked to end; nothing if it has not within 2 s.
  std::optional<End> end();

  // Continues it if it was stopped.
  void resume() const;

private:
  SuspendedChild(std::string name, pid_t pid, UniqueFd go, UniqueFd failure);
  // Waits without end, or so long.
  std::optional<ChildEnd> reap(std::optional<std::chrono::milliseconds> timeout = {});

  std::string name_;
  pid_t pid_ = -1;           // -1 once reaped
  UniqueFd release_pipe_;    // a byte lets the child run, its end makes the child end
  UniqueFd exec_error_pipe_; // the errno of execvp; closed by a successful one
};

} // namespace uprobectl
