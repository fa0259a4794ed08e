// SPDX-License-Identifier: Apache-2.0
#include "trace/read_ahead.hpp"

#include "trace/run_loop.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>

namespace uprobectl {

namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

struct RecordPrefix {
  std::uint64_t size = 0;
  std::uint64_t tag = 0;
};

void signal(const UniqueFd& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event.get(), &one, sizeof(one));
}

void clear(const UniqueFd& event) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto size = ::read(event.get(), &count, sizeof(count));
}

} // namespace

Result<std::unique_ptr<ReadAhead>> ReadAhead::start(Source source) {
  std::unique_ptr<ReadAhead> made(new ReadAhead(std::move(source)));
  made->ready_ = UniqueFd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  made->wake_ = UniqueFd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!made->ready_ || !made->wake_) return fail(system_error(errno, "cannot make an eventfd"));
  try {
    made->thread_ = std::thread([reader = made.get()] { reader->read(); });
  } catch (const std::system_error& error) {
    return fail(system_error(error.code().value(), "cannot start a thread")
                    .hint("raise the limit of processes or of memory: ulimit -u, ulimit -v, or "
                          "pids.max and memory.max of the control group"));
  }
  return made;
}

ReadAhead::~ReadAhead() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  changed_.notify_all();
  signal(wake_);
  thread_.join();
}

void ReadAhead::finish() {
  ending_ = true;
  signal(wake_);
}

void ReadAhead::read() {
  const Visit visit = [this](std::size_t tag, Bytes record) { return add(tag, record); };
  while (!abandoned_) {
    const bool last = ending_; // read before draining, so that the last drain sees all records
    if (source_.drain(visit)) continue;
    if (last) break;
    wait();
  }
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  signal(ready_);
}

void ReadAhead::wait() {
  std::vector<pollfd> polled = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  for (const int fd : source_.poll_fds)
    polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  ::poll(polled.data(), polled.size(), static_cast<int>(poll_timeout.count()));
}

bool ReadAhead::add(std::size_t tag, Bytes record) {
  const RecordPrefix prefix{.size = record.size(), .tag = tag};
  const std::size_t size = sizeof(prefix) + record.size();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return abandoned_ || waiting_bytes_ == 0 ||
           waiting_bytes_ + taken_bytes_ + size <= source_.max_bytes;
  });
  if (abandoned_) return false;
  if (waiting_.empty() || waiting_.back().capacity() - waiting_.back().size() < size) {
    waiting_.emplace_back();
    if (!spare_.empty()) {
      waiting_.back() = std::move(spare_.back());
      spare_.pop_back();
    }
    waiting_.back().reserve(std::max(block_bytes, size));
  }
  Block& block = waiting_.back();
  const auto* const begin = reinterpret_cast<const std::byte*>(&prefix);
  block.insert(block.end(), begin, begin + sizeof(prefix));
  block.insert(block.end(), record.begin(), record.end());
  const bool first = waiting_bytes_ == 0;
  waiting_bytes_ += size;
  ++unread_;
  lock.unlock();
  if (first) {
    signal(ready_);
    changed_.notify_all();
  }
  return true;
}

void ReadAhead::drop_taken() {
  unread_ -= std::exchange(visited_, 0);
  taken_bytes_ -= taken_.front().size();
  taken_.front().clear();
  spare_.push_back(std::move(taken_.front()));
  taken_.pop_front();
}

// Moves the waiting blocks to taken_. Returns false if there are none, now or, after finish(), for
// good.
bool ReadAhead::take_waiting_blocks() {
  std::unique_lock lock(mutex_);
  while (!taken_.empty()) drop_taken(); // all their records were visited
  clear(ready_);
  if (ending_) changed_.wait(lock, [&] { return ended_ || waiting_bytes_ > 0; });
  if (waiting_.empty()) {
    if (spare_.size() > 1) spare_.resize(1); // frees memory that may not be needed for long
    return false;
  }
  taken_ = std::exchange(waiting_, {});
  taken_bytes_ = std::exchange(waiting_bytes_, 0);
  lock.unlock();
  changed_.notify_all();
  return true;
}

bool ReadAhead::is_done() {
  const std::lock_guard lock(mutex_);
  return ended_ && unread_ == visited_;
}

std::uint64_t ReadAhead::unread() {
  const std::lock_guard lock(mutex_);
  return unread_ - visited_;
}

bool ReadAhead::take(const Visit& visit) {
  std::size_t blocks = 0;
  for (;;) {
    if (taken_.empty() || next_ == taken_.front().size()) {
      next_ = 0;
      if (taken_.size() > 1) {
        {
          const std::lock_guard lock(mutex_);
          drop_taken();
        }
        changed_.notify_all();
      } else if (!take_waiting_blocks()) {
        return false;
      }
      // Return from time to time: the consumer must also watch the clock and write output.
      if (++blocks > 1) return true;
    }
    const Bytes block(taken_.front());
    RecordPrefix prefix;
    std::memcpy(&prefix, block.data() + next_, sizeof(prefix));
    const Bytes record = block.subspan(next_ + sizeof(prefix), prefix.size);
    next_ += sizeof(prefix) + prefix.size;
    ++visited_;
    if (!visit(prefix.tag, record)) return true;
  }
}

} // namespace uprobectl
