// SPDX-License-Identifier: Apache-2.0
#include "trace/saved_source.hpp"

#include "util/descriptor_io.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uprobectl::trace {

namespace {

constexpr std::size_t buffer_size = std::size_t{256} << 10U;

} // namespace

Result<SavedSource> SavedSource::open(const std::string& path, bool is_of_parent) {
  auto signals = SignalWatch::start();
  if (!signals) return fail(std::move(signals).error());
  UniqueFd file;
  if (path != "-") {
    file = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!file) return fail(system_error(errno, path));
  }
  return SavedSource(std::move(file), is_of_parent, std::move(*signals));
}

SavedSource::SavedSource(UniqueFd file, bool is_of_parent, SignalWatch signals)
    : file_(std::move(file)), fd_(file_ ? file_.get() : STDIN_FILENO), signals_(std::move(signals)),
      buffer_(buffer_size), is_of_parent_(is_of_parent) {}

std::size_t SavedSource::megabytes() const {
  struct stat status{};
  const bool is_file = is_regular_file(fd_) && ::fstat(fd_, &status) == 0;
  return is_file ? static_cast<std::size_t>(status.st_size) >> 20U : 0;
}

Result<Bytes> SavedSource::read(const std::function<bool()>& meanwhile) {
  for (;;) {
    if (!wait(meanwhile)) return Bytes();
    const ssize_t size = ::read(fd_, buffer_.data(), buffer_.size());
    if (size >= 0) return Bytes(buffer_).first(static_cast<std::size_t>(size));
    if (errno != EINTR && errno != EAGAIN) return fail(system_error(errno, "cannot read"));
  }
}

void SavedSource::stay(const std::function<bool()>& meanwhile) {
  while (meanwhile() && !signals_.arrived()) {
    pollfd polled{.fd = signals_.fd(), .events = POLLIN, .revents = 0};
    ::poll(&polled, 1, static_cast<int>(poll_timeout.count()));
  }
}

// Ends the run by sending SIGINT to the parent, as ctrl-c does. Returns false if the parent is not
// the writer. The end of this process closes the pipe then, and another program, such as a script,
// must get no signal.
bool SavedSource::ask_for_end() {
  if (!is_of_parent_) return false;
  if (!std::exchange(has_asked_, true)) ::kill(::getppid(), SIGINT);
  return true;
}

// Waits for bytes. Returns false if the reading ends before.
bool SavedSource::wait(const std::function<bool()>& meanwhile) {
  for (;;) {
    if (meanwhile && !meanwhile() && !ask_for_end()) return false;
    if (signals_.arrived() && !deadline_) {
      if (is_regular_file(fd_)) return false;
      deadline_ = std::chrono::steady_clock::now() + flush_timeout;
    }
    if (deadline_ && (signals_.count() > 1 || std::chrono::steady_clock::now() >= *deadline_))
      return false;
    std::array<pollfd, 2> polled = {{{.fd = fd_, .events = POLLIN, .revents = 0},
                                     {.fd = signals_.fd(), .events = POLLIN, .revents = 0}}};
    const auto timeout = deadline_ || meanwhile ? poll_timeout : std::chrono::milliseconds(-1);
    if (::poll(polled.data(), polled.size(), static_cast<int>(timeout.count())) < 0) continue;
    if (polled[0].revents != 0) return true;
  }
}

} // namespace uprobectl::trace
