// SPDX-License-Identifier: Apache-2.0
#include "bpf/ring.hpp"

#include <atomic>
#include <bpf/bpf.h>
#include <cerrno>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace uprobectl::bpf {

namespace {

// A program that is just writing a record is done sooner, unless it was preempted.
constexpr std::chrono::milliseconds usual_write_time{5};

std::uint64_t load(std::uint64_t* position) {
  return std::atomic_ref(*position).load(std::memory_order_acquire);
}

// Returns the size of the record with its header and padding.
std::uint64_t bytes_used(std::uint32_t header) {
  const std::uint64_t length = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
  return (length + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
}

bool is_reserved(std::uint32_t header) { return (header & BPF_RINGBUF_BUSY_BIT) != 0; }

} // namespace

RingCursor::RingCursor(const RingMemory& memory) : memory_(memory), next_(load(memory.consumer)) {}

std::uint32_t RingCursor::header_at(std::uint64_t position) const {
  void* const at = memory_.data + (position & (memory_.size - 1));
  return std::atomic_ref(*static_cast<std::uint32_t*>(at)).load(std::memory_order_acquire);
}

// Visits a submitted record, unless the program has discarded it.
bool RingCursor::visit_at(std::uint64_t position, const Visit& visit) const {
  const std::uint32_t header = header_at(position);
  if ((header & BPF_RINGBUF_DISCARD_BIT) != 0) return true;
  const std::byte* const record =
      memory_.data + (position & (memory_.size - 1)) + BPF_RINGBUF_HDR_SZ;
  return visit({record, header});
}

// The records that have been submitted after all.
bool RingCursor::visit_skipped(const Visit& visit) {
  for (auto each = skipped_.begin(); each != skipped_.end();) {
    if (is_reserved(header_at(*each))) {
      ++each;
      continue;
    }
    const std::uint64_t position = *each;
    each = skipped_.erase(each);
    if (!visit_at(position, visit)) return false;
  }
  return true;
}

// Whether the reserved record at next_ may still be submitted soon.
bool RingCursor::waits_at_head(Time now, std::uint64_t produced) {
  if (!mark_ || next_ >= mark_->position) mark_ = Mark{.time = now, .position = produced};
  const auto waited = now - mark_->time;
  is_held_up_ = is_held_up_ || waited >= usual_write_time;
  return waited < reserved_record_timeout;
}

void RingCursor::release() const {
  std::atomic_ref(*memory_.consumer)
      .store(skipped_.empty() ? next_ : skipped_.front(), std::memory_order_release);
}

bool RingCursor::drain(Time now, const Visit& visit) {
  bool goes_on = visit_skipped(visit);
  is_held_up_ = !skipped_.empty() || is_damaged_;
  waits_ = false;
  const std::uint64_t produced = load(memory_.producer);
  while (goes_on && !is_damaged_ && next_ < produced) {
    const std::uint32_t header = header_at(next_);
    const std::uint64_t used = bytes_used(header);
    is_damaged_ = used > memory_.size || used > produced - next_;
    if (is_damaged_) break;
    if (is_reserved(header)) {
      waits_ = waits_at_head(now, produced);
      if (waits_) break;
      skipped_.push_back(next_);
      next_ += used;
      continue;
    }
    const std::uint64_t position = next_;
    next_ += used;
    goes_on = visit_at(position, visit);
    release();
  }
  release();
  return goes_on;
}

MappedRing::MappedRing(int map, void* consumer, void* producer, std::uint64_t size)
    : map_(map), consumer_(consumer), producer_(producer),
      producer_bytes_(static_cast<std::size_t>(::getpagesize()) + 2 * size),
      cursor_({.consumer = static_cast<std::uint64_t*>(consumer),
               .producer = static_cast<std::uint64_t*>(producer),
               .data = static_cast<std::byte*>(producer) + ::getpagesize(),
               .size = size}) {}

MappedRing::MappedRing(MappedRing&& other) noexcept
    : map_(other.map_), consumer_(std::exchange(other.consumer_, nullptr)),
      producer_(std::exchange(other.producer_, nullptr)), producer_bytes_(other.producer_bytes_),
      cursor_(std::move(other.cursor_)) {}

MappedRing::~MappedRing() {
  if (consumer_ != nullptr) ::munmap(consumer_, static_cast<std::size_t>(::getpagesize()));
  if (producer_ != nullptr) ::munmap(producer_, producer_bytes_);
}

std::expected<MappedRing, int> MappedRing::open(int map) {
  bpf_map_info info{};
  std::uint32_t info_size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(map, &info, &info_size) != 0) return std::unexpected(errno);
  if (info.type != BPF_MAP_TYPE_RINGBUF) return std::unexpected(EINVAL);
  const auto page = static_cast<std::size_t>(::getpagesize());
  void* const consumer = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
  if (consumer == MAP_FAILED) return std::unexpected(errno);
  void* const producer = ::mmap(nullptr, page + 2 * std::size_t{info.max_entries}, PROT_READ,
                                MAP_SHARED, map, static_cast<off_t>(page));
  if (producer == MAP_FAILED) {
    const int error = errno;
    ::munmap(consumer, page);
    return std::unexpected(error);
  }
  return MappedRing(map, consumer, producer, info.max_entries);
}

} // namespace uprobectl::bpf
