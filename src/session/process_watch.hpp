// Waits for whatever comes first: records, the deadline, a signal, the end of the probed processes,
// room in the output or its reader's end.
#pragma once

#include "uprobectl/session.hpp"

#include <poll.h>
#include <signal.h>

namespace uprobectl {

// While it lives SIGINT, SIGTERM and SIGHUP do not kill but wait to be asked for. SIGCONT is noted
// besides what it does anyway.
class SignalWatch {
public:
  static Result<SignalWatch> start();
  SignalWatch(SignalWatch&& other) noexcept;
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(SignalWatch&&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  ~SignalWatch(); // lets through again what was blocked; signals not asked for are dropped

  bool arrived();        // true once an ending signal has come, from then on
  std::uint64_t count(); // of ending signals so far
  bool continued();      // whether SIGCONT has come since the last call
  int fd() const { return fd_.get(); }

private:
  SignalWatch(UniqueFd fd, const sigset_t& previous) : fd_(std::move(fd)), previous_(previous) {}
  void read_all();

  UniqueFd fd_;
  sigset_t previous_;
  std::uint64_t count_ = 0;
  bool continued_ = false;
};

// While it lives one of the signals of SignalWatch ends the program at once: exit status 130 and a
// message. For what may take long and leaves nothing behind.
class EndsOnSignal {
public:
  EndsOnSignal();
  EndsOnSignal(const EndsOnSignal&) = delete;
  EndsOnSignal& operator=(const EndsOnSignal&) = delete;
  ~EndsOnSignal();

private:
  sigset_t mask_before_{};
  std::vector<std::pair<int, struct sigaction>> actions_before_;
};

// Tells when the last of some processes has ended.
class ProcessWatch {
public:
  // not_found names a process that is not there (any more).
  static Result<ProcessWatch> start(std::span<const pid_t> pids);
  bool all_gone(); // false for ever where no process is watched
  void add_to(std::vector<pollfd>& polled) const;
  // Those that all_gone() has seen to be gone since the last time: "process 4711 (app)".
  std::vector<std::string> take_ended() { return std::exchange(ended_, {}); }

private:
  struct Running {
    std::string name;
    UniqueFd fd; // pidfd_open(2)
  };
  bool watches_ = false;
  std::vector<Running> running_;
  std::vector<std::string> ended_;
};

} // namespace uprobectl
