// SPDX-License-Identifier: Apache-2.0
#include "process/child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace uprobectl::process {

namespace {

using namespace std::chrono_literals;

std::optional<ChildEnd> reap(pid_t child, int flags) {
  int status = 0;
  pid_t ended = 0;
  do ended = ::waitpid(child, &status, flags);
  while (ended < 0 && errno == EINTR);
  if (ended != child) return std::nullopt;
  if (WIFSIGNALED(status)) return ChildEnd{.signal = WTERMSIG(status)};
  return ChildEnd{.status = WEXITSTATUS(status)};
}

} // namespace

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(system_error(errno, "cannot create a pipe"));
  return Pipe{UniqueFd{ends[0]}, UniqueFd{ends[1]}};
}

std::optional<ChildEnd> wait_for(pid_t child) { return reap(child, 0); }

std::optional<ChildEnd> wait_for(pid_t child, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  // Start with a short interval: a child that has closed its streams usually exits soon after.
  std::chrono::microseconds pause = 100us;
  for (;;) {
    if (const auto status = reap(child, WNOHANG)) return status;
    const auto left =
        std::chrono::ceil<std::chrono::microseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= 0us) return std::nullopt;
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min<std::chrono::microseconds>(pause * 2, 10ms);
  }
}

// A raw system call, because older C libraries and Android's have no wrapper.
UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
}

ProcessHandle::ProcessHandle(pid_t pid)
    : pid_(pid), fd_(open_pidfd(pid)), open_error_(fd_ ? 0 : errno) {}

bool ProcessHandle::has_ended() const {
  if (!fd_) return ::kill(pid_, 0) != 0 && errno == ESRCH;
  pollfd polled{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) > 0;
}

void ProcessHandle::add_to(std::vector<pollfd>& polled) const {
  if (fd_) polled.push_back({.fd = fd_.get(), .events = POLLIN, .revents = 0});
}

} // namespace uprobectl::process
