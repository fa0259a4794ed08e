// SPDX-License-Identifier: Apache-2.0
// Takes records out of the kernel's buffers while the rest of the session is busy with earlier
// ones: what a stack takes to unwind must not cost the stacks behind it.
#pragma once

#include "uprobectl/util.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace uprobectl {

// A thread that reads, and a queue of records that has a bound: where it is full the kernel's
// buffers are left to fill. Serves one taker.
class ReadAhead {
public:
  // `tag`: of which buffer; as the taker gets it.
  using Visit = std::function<bool(std::size_t tag, Bytes record)>;
  struct Source {
    // Hands out what waits in the kernel until visit returns false; only called by the thread. True
    // if some may be left.
    std::function<bool(const Visit& visit)> drain;
    std::vector<int>
        poll_fds; // readable when it should be drained; it is so each poll_timeout anyway
    std::size_t max_bytes = std::size_t{64} << 20; // of the queue and what is being taken
  };
  static Result<std::unique_ptr<ReadAhead>> start(Source source);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead(); // what has not been taken is lost

  int poll_fd() const { return ready_.get(); } // readable when records wait
  // Nothing more comes: the thread reads what is left and ends, and take() waits for it.
  void finish();
  // In the order of the source, until visit returns false. True if some may be left.
  bool take(const Visit& visit);
  // The thread has read what it was to read, and all of it was taken.
  bool is_done();
  // Records that nobody has taken.
  std::uint64_t unread();

private:
  explicit ReadAhead(Source source) : source_(std::move(source)) {}
  void read();
  void wait();
  bool add(std::size_t tag, Bytes record);
  bool take_waiting_blocks();
  void drop_taken(); // the first block

  // Records one behind the other, each after its size and tag, in blocks that do not grow.
  using Block = std::vector<std::byte>;

  Source source_;
  UniqueFd ready_; // an eventfd
  UniqueFd wake_;  // another, for the thread
  std::atomic<bool> ending_ = false;
  std::atomic<bool> abandoned_ = false;

  std::mutex mutex_; // of what follows
  std::condition_variable changed_;
  std::deque<Block> waiting_;
  std::vector<Block> spare_;
  std::size_t waiting_bytes_ = 0;
  std::size_t taken_bytes_ = 0; // of the taker's blocks
  std::uint64_t unread_ = 0;    // records in both
  bool ended_ = false;          // the thread adds no more

  std::deque<Block> taken_;   // the taker's own
  std::size_t next_ = 0;      // in its first block
  std::uint64_t visited_ = 0; // records of it
  std::thread thread_;
};

} // namespace uprobectl
