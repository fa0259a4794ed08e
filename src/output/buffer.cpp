#include "uprobectl/output.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <unistd.h>

namespace uprobectl {

namespace {

constexpr std::size_t flush_size = 64 * 1024;

// A pipe that poll calls writable takes this much without blocking (PIPE_BUF, pipe(7)).
constexpr std::size_t sure_to_be_taken = 4096;

enum class Room { none, some, closed };

// closed: the descriptor itself is, POLLNVAL. A reader's end shows as EPIPE when writing.
Room room(int fd, int timeout_ms) {
  pollfd polled{.fd = fd, .events = POLLOUT, .revents = 0};
  if (::poll(&polled, 1, timeout_ms) <= 0) return Room::none;
  return (polled.revents & POLLNVAL) != 0 ? Room::closed : Room::some;
}

} // namespace

void OutputBuffer::append(std::string_view text) {
  draft() += text;
  commit();
}

void OutputBuffer::commit() {
  if (closed_ || error_)
    pending_.clear();
  else if (writes_itself_ && pending() >= flush_size)
    flush();
}

void OutputBuffer::write_once(std::size_t most) {
  std::string_view rest = std::string_view(pending_).substr(written_, most);
  // Another program may write to the same file, a command that is run, say: not between a line's
  // halves.
  if (const auto end = rest.rfind('\n'); end != std::string_view::npos)
    rest = rest.substr(0, end + 1);
  const ssize_t size = ::write(fd_, rest.data(), rest.size());
  if (size >= 0) {
    written_ += static_cast<std::size_t>(size);
  } else if (errno == EPIPE) {
    closed_ = true;
  } else if (errno == EAGAIN) {
    // A non-blocking descriptor inherited from the parent: wait until the reader has caught up.
    static_cast<void>(room(fd_, -1));
  } else if (errno != EINTR) {
    error_ = system_error(errno, "cannot write the output");
  }
  if (written_ == pending_.size() || closed_ || error_) {
    pending_.clear();
    written_ = 0;
  }
}

void OutputBuffer::abandon() {
  closed_ = true;
  pending_.clear();
  written_ = 0;
}

void OutputBuffer::flush() {
  while (pending() > 0) write_once(pending());
}

void OutputBuffer::flush_some() {
  while (pending() > 0) {
    const Room found = room(fd_, 0);
    if (found == Room::closed) return abandon();
    if (found == Room::none) break;
    write_once(sure_to_be_taken);
  }
  if (written_ > pending_.size() / 2) {
    pending_.erase(0, written_);
    written_ = 0;
  }
}

bool OutputBuffer::flush_within(std::chrono::milliseconds patience) {
  while (pending() > 0) {
    const Room found = room(fd_, static_cast<int>(patience.count()));
    if (found == Room::none) return false;
    if (found == Room::closed)
      abandon();
    else
      write_once(sure_to_be_taken);
  }
  return true;
}

} // namespace uprobectl
