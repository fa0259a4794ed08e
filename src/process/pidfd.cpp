#include "process/pidfd.hpp"

#include <cerrno>
#include <csignal>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl {

// The C library of Debian 12 wraps it, older ones and Android's do not.
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

} // namespace uprobectl
