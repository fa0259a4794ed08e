// SPDX-License-Identifier: Apache-2.0
// Reads a BPF ring buffer. Records are reserved, written, and submitted; a program that is killed
// in between leaves one that stays reserved for ever. Source: Linux kernel/bpf/ringbuf.c,
// Documentation/bpf/ringbuf.rst.
#pragma once

#include "uprobectl/util.hpp"

#include <chrono>
#include <functional>

namespace uprobectl::bpf {

// How long a record may be reserved before the records after it are read.
constexpr std::chrono::milliseconds reserved_record_timeout{800};

// The memory of a ring buffer as the kernel maps it. All positions count bytes since the beginning
// and never wrap.
struct RingMemory {
  std::uint64_t* consumer = nullptr; // position of the first record that is in use
  std::uint64_t* producer = nullptr; // position after the last record; read only
  std::byte* data = nullptr;         // mapped twice in a row, read only
  std::uint64_t size = 0;            // bytes, a power of two
};

// Reads the records of one ring buffer, each once. Borrows the memory.
class RingCursor {
public:
  using Time = std::chrono::steady_clock::time_point;
  using Visit = std::function<bool(Bytes)>;

  explicit RingCursor(const RingMemory& memory);

  // Visits the submitted records in order until visit returns false; returns false then. Stops at a
  // reserved record until it is submitted, or for reserved_record_timeout: then it is skipped, and
  // visited when it is submitted later. The space of a skipped record and of all records after it
  // is not released, because the program may still write into it.
  bool drain(Time now, const Visit& visit);

  // True if the last drain() has stopped at a reserved record.
  bool waits() const { return waits_; }
  // True if records have waited after a reserved one for some time. The descriptor of the buffer
  // stays readable then: wait for a time instead.
  bool is_held_up() const { return is_held_up_; }
  // The number of records that were skipped and are not submitted.
  std::uint64_t unsubmitted() const { return skipped_.size() + (is_damaged_ ? 1 : 0); }

private:
  // A time, and the position after all records that were reserved before it.
  struct Mark {
    Time time;
    std::uint64_t position = 0;
  };
  std::uint32_t header_at(std::uint64_t position) const;
  bool visit_at(std::uint64_t position, const Visit& visit) const;
  bool visit_skipped(const Visit& visit);
  bool waits_at_head(Time now, std::uint64_t produced);
  void release() const;

  RingMemory memory_;
  std::uint64_t next_ = 0;             // position of the record to read
  std::vector<std::uint64_t> skipped_; // positions below next_, ascending
  std::optional<Mark> mark_;           // set while the record at next_ is reserved
  bool waits_ = false;
  bool is_held_up_ = false;
  bool is_damaged_ = false; // a length leads out of the buffer
};

// The ring buffer of a map. Borrows its descriptor.
class MappedRing {
public:
  // Fails with an errno.
  static std::expected<MappedRing, int> open(int map);
  MappedRing(MappedRing&& other) noexcept;
  MappedRing& operator=(MappedRing&& other) noexcept = delete;
  ~MappedRing();

  RingCursor& cursor() { return cursor_; }
  const RingCursor& cursor() const { return cursor_; }
  // Readable when records wait; -1, which poll() ignores, while the cursor is held up.
  int poll_fd() const { return cursor_.is_held_up() ? -1 : map_; }

private:
  MappedRing(int map, void* consumer, void* producer, std::uint64_t size);

  int map_ = -1;
  void* consumer_ = nullptr;
  void* producer_ = nullptr; // the position, and the data after it
  std::size_t producer_bytes_ = 0;
  RingCursor cursor_;
};

} // namespace uprobectl::bpf
