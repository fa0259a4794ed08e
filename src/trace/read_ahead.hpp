// SPDX-License-Identifier: Apache-2.0
// Reads records from the kernel's buffers in a thread of its own, so that the time to unwind one
// stack does not make the buffers overflow.
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

// A thread that reads records into a bounded queue. If the queue is full, the thread waits and the
// kernel's buffers fill up. There is one consumer thread.
class ReadAhead {
public:
  // `tag` identifies the buffer that the record came from.
  using Visit = std::function<bool(std::size_t tag, Bytes record)>;
  struct Source {
    // Visits the waiting records until visit returns false. Returns true if more may wait. Called
    // by the reading thread only.
    std::function<bool(const Visit& visit)> drain;
    std::vector<int> poll_fds; // readable when records wait; drain is also called each poll_timeout
    // Limit of the queue and of the blocks that are being consumed.
    std::size_t max_bytes = std::size_t{64} << 20;
  };
  static Result<std::unique_ptr<ReadAhead>> start(Source source);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead(); // discards the records that were not taken

  int poll_fd() const { return ready_.get(); } // readable when records wait
  // Makes the thread read the remaining records and end. From then on take() waits for it.
  void finish();
  // Visits the queued records in order until visit returns false. Returns true if more may wait.
  bool take(const Visit& visit);
  // Returns true if the thread has ended and all records were taken.
  bool is_done();
  // Returns the number of records that were not taken.
  std::uint64_t unread();

private:
  explicit ReadAhead(Source source) : source_(std::move(source)) {}
  void read();
  void wait();
  bool add(std::size_t tag, Bytes record);
  bool take_waiting_blocks();
  void drop_taken(); // drops the first block of taken_

  // Consecutive records, each after its size and tag. A block never reallocates.
  using Block = std::vector<std::byte>;

  Source source_;
  UniqueFd ready_; // an eventfd
  UniqueFd wake_;  // another, for the thread
  std::atomic<bool> ending_ = false;
  std::atomic<bool> abandoned_ = false;

  std::mutex mutex_; // guards the members up to ended_
  std::condition_variable changed_;
  std::deque<Block> waiting_;
  std::vector<Block> spare_;
  std::size_t waiting_bytes_ = 0;
  std::size_t taken_bytes_ = 0; // bytes in taken_
  std::uint64_t unread_ = 0;    // records in waiting_ and taken_
  bool ended_ = false;          // the thread has ended

  std::deque<Block> taken_;   // used by the consumer only
  std::size_t next_ = 0;      // offset of the next record in taken_.front()
  std::uint64_t visited_ = 0; // records of taken_.front() that were visited
  std::thread thread_;
};

} // namespace uprobectl
