// SPDX-License-Identifier: Apache-2.0
#include "symbols/demangle.hpp"
#include "symbols/parallel.hpp"
#include "uprobectl/symbols.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace uprobectl::symbols {

namespace {

constexpr std::size_t batch_size = 32;           // names, some 20 KB of text
constexpr std::size_t max_batch_text = 64 << 10; // bytes
constexpr std::size_t batches_per_thread = 6;    // ready or in progress

// Some consecutive names, demangled into one text. Names that would exceed max_batch_text are left
// to the reader.
class Batch {
public:
  void fill(const DemangledNames::RawName& raw, std::size_t begin, std::size_t end,
            Demangler& demangler) {
    text_.clear();
    ends_.clear();
    for (std::size_t i = begin; i < end; ++i) {
      if (text_.size() > max_batch_text) return;
      const auto demangled = demangler.whole(raw(i));
      text_ += demangled.value_or(std::string_view());
      ends_.push_back({text_.size(), demangled.has_value()});
    }
  }

  bool has(std::size_t index) const { return index < ends_.size(); }
  std::optional<std::string_view> at(std::size_t index) const {
    if (!ends_[index].is_name) return std::nullopt;
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1].at;
    return std::string_view(text_).substr(begin, ends_[index].at - begin);
  }

private:
  struct End {
    std::size_t at = 0;
    bool is_name = false;
  };
  std::string text_;
  std::vector<End> ends_;
};

} // namespace

// The threads claim batches in order, and so does the reader while it waits for a batch. Batches
// are in a ring, which limits how far the threads are ahead of the reader.
class DemangledNames::Workers {
public:
  Workers(std::size_t count, RawName raw)
      : count_(count), raw_(std::move(raw)), ring_(thread_count_for(count) * batches_per_thread) {
    DemanglingBudget::for_this_thread().refill(); // new threads start with a full one
    const std::size_t threads = ring_.size() / batches_per_thread;
    while (threads_.size() + 1 < threads && add_thread()) {
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  std::optional<std::string_view> next() {
    const std::size_t index = next_ % batch_size;
    if (index == 0) batch_ = &read(next_ / batch_size);
    const std::size_t number = next_++;
    return batch_->has(index) ? batch_->at(index) : demangler_.whole(raw_(number));
  }

private:
  struct Slot {
    Batch batch;
    std::size_t done = SIZE_MAX; // number of the batch that it holds
  };

  // False if no thread can be created; the existing ones and the reader then do all work.
  bool add_thread() {
    try {
      threads_.emplace_back([this] { work_ahead(); });
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  // Releases the batches before this one.
  const Batch& read(std::size_t number) {
    std::unique_lock lock(mutex_);
    reading_ = number;
    changed_.notify_all();
    while (slot(number).done != number) {
      if (may_claim())
        demangle_next(lock, demangler_);
      else
        changed_.wait(lock);
    }
    return slot(number).batch;
  }

  Slot& slot(std::size_t number) { return ring_[number % ring_.size()]; }
  bool all_claimed() const { return claimed_ * batch_size >= count_; }
  bool may_claim() const { return !all_claimed() && claimed_ < reading_ + ring_.size(); }

  void demangle_next(std::unique_lock<std::mutex>& lock, Demangler& demangler) {
    const std::size_t number = claimed_++;
    lock.unlock();
    const std::size_t begin = number * batch_size;
    slot(number).batch.fill(raw_, begin, std::min(begin + batch_size, count_), demangler);
    lock.lock();
    slot(number).done = number;
    changed_.notify_all();
  }

  void work_ahead() {
    Demangler demangler;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || all_claimed() || may_claim(); });
      if (ended_ || all_claimed()) return;
      demangle_next(lock, demangler);
    }
  }

  std::size_t count_; // names
  RawName raw_;
  // Used by the reader only:
  std::size_t next_ = 0;
  const Batch* batch_ = nullptr;
  Demangler demangler_;

  // Guarded by mutex_:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> ring_;
  std::size_t claimed_ = 0; // batches
  std::size_t reading_ = 0;
  bool ended_ = false;
  std::vector<std::jthread> threads_; // last, so that they are joined before the rest is destroyed
};

DemangledNames::DemangledNames(std::size_t count, RawName raw)
    : workers_(std::make_unique<Workers>(count, std::move(raw))) {}

DemangledNames::~DemangledNames() = default;

std::optional<std::string_view> DemangledNames::next() { return workers_->next(); }

} // namespace uprobectl::symbols
