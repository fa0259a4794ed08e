#include "output/buffer.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <unistd.h>

namespace uprobectl {

namespace {

constexpr std::size_t flush_size = 64 * 1024;

// A pipe that poll calls writable takes this much without blocking (PIPE_BUF, pipe(7)).
constexpr std::size_t sure_to_be_taken = 4096;

// How often flush_within() asks whether to give up.
constexpr std::chrono::milliseconds cancel_check_interval{50};

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
    drop_pending();
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
  while (!event_ends_.empty() && event_ends_.front() <= before_pending_ + written_)
    event_ends_.pop_front();
  if (written_ == pending_.size() || closed_ || error_) drop_pending();
}

// Events that end in it are dropped with it.
void OutputBuffer::drop_pending() {
  before_pending_ += pending_.size();
  pending_.clear();
  written_ = 0;
  dropped_events_ += event_ends_.size();
  event_ends_.clear();
}

void OutputBuffer::end_event() {
  if (closed_ || error_)
    ++dropped_events_;
  else if (pending() > 0) // else append() has written it
    event_ends_.push_back(before_pending_ + pending());
}

void OutputBuffer::abandon() {
  closed_ = true;
  drop_pending();
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
    before_pending_ += written_;
    written_ = 0;
  }
}

bool OutputBuffer::flush_within(std::chrono::milliseconds patience,
                                const std::function<bool()>& is_cancelled) {
  std::chrono::milliseconds waited{0};
  while (pending() > 0) {
    if (is_cancelled && is_cancelled()) return false;
    const auto slice = is_cancelled ? std::min(patience - waited, cancel_check_interval) : patience;
    const Room found = room(fd_, static_cast<int>(slice.count()));
    if (found == Room::none) {
      waited += slice;
      if (waited >= patience) return false;
      continue;
    }
    waited = {};
    if (found == Room::closed)
      abandon();
    else
      write_once(sure_to_be_taken);
  }
  return true;
}

} // namespace uprobectl
