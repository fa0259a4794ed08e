// SPDX-License-Identifier: Apache-2.0
#include "live/stop_signals.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>

namespace uprobectl::live {

namespace {

constinit std::atomic<int> signalled_fd = -1;
static_assert(std::atomic<int>::is_always_lock_free); // so that a handler may read it

void note_signal(int /*signal*/) {
  const int errno_before = errno;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(signalled_fd.load(), &one, sizeof(one)));
  errno = errno_before;
}

void set_handler(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTSTP, &action, nullptr);
}

} // namespace

Result<StopSignals> StopSignals::start() {
  struct sigaction before{};
  if (::sigaction(SIGTSTP, nullptr, &before) != 0 || before.sa_handler != SIG_DFL)
    return fail(ErrorKind::unsupported, "SIGTSTP is ignored");
  UniqueFd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!event) return fail(system_error(errno, "cannot watch for SIGTSTP"));
  StopSignals signals(std::move(event));
  signals.handle();
  return signals;
}

void StopSignals::handle() const {
  signalled_fd = event_.get();
  set_handler(note_signal);
}

StopSignals::~StopSignals() {
  if (event_) set_handler(SIG_DFL); // otherwise moved from
}

bool StopSignals::take() {
  std::uint64_t count = 0;
  return ::read(event_.get(), &count, sizeof(count)) == sizeof(count);
}

void StopSignals::stop() {
  set_handler(SIG_DFL);
  ::kill(::getpid(), SIGTSTP);
  handle();
}

} // namespace uprobectl::live
