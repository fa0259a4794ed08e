#include "bpf/record_reader.hpp"

#include "bpf/output_event.hpp"
#include "bpf/perf_sample.hpp"
#include "bpf/permission.hpp"
#include "uprobectl/bpf/record.h"

#include <algorithm>
#include <bit>
#include <bpf/libbpf.h>
#include <cerrno>
#include <unistd.h>

namespace uprobectl {

namespace {

// A drain ends here even if a hot probe refills the buffer as fast as it is read.
constexpr std::uint32_t most_records_per_drain = 1U << 16;
constexpr std::size_t most_bytes_per_drain = std::size_t{16}
                                             << 20; // of perf buffers, which it copies

class RingReader final : public RecordReader {
public:
  explicit RingReader(int map) : ring_(ring_buffer__new(map, take_record, this, nullptr)) {}
  bool open() const { return ring_ != nullptr; }

  int poll_fd() const override { return ring_buffer__epoll_fd(ring_.get()); }
  bool drain(const Visit& visit) override {
    visit_ = &visit;
    left_ = most_records_per_drain;
    const int consumed = ring_buffer__consume(ring_.get());
    visit_ = nullptr;
    return consumed < 0;
  }

private:
  static int take_record(void* context, void* data, std::size_t size) {
    auto& reader = *static_cast<RingReader*>(context);
    if (reader.visit_ == nullptr) return 0;
    const bool goes_on = (*reader.visit_)({static_cast<const std::byte*>(data), size});
    return goes_on && --reader.left_ != 0 ? 0 : -1;
  }

  struct Free {
    void operator()(ring_buffer* ring) const { ring_buffer__free(ring); }
  };
  const Visit* visit_ = nullptr;
  std::uint32_t left_ = 0;
  std::unique_ptr<ring_buffer, Free> ring_; // calls back with `this`
};

// Each CPU's buffer is in order by itself. What waits in all of them is taken out and sorted: until
// nothing does, as a thread that moves on meanwhile may have its later record found first.
class PerfReader final : public RecordReader {
public:
  explicit PerfReader(const PerfReading& reading) : reading_(reading) {}

  // ENOMEM, EPERM, ...: an errno, 0 if it is open.
  int open(int map, std::size_t pages_per_cpu, std::uint32_t wake_at) {
    event_ = bpf_output_event();
    event_.watermark = 1;
    event_.wakeup_watermark = wake_at;
    if (reading_.stack_bytes > 0) ask_for_stack_bytes(event_, reading_.stack_bytes);
    buffers_.reset(perf_buffer__new_raw(map, pages_per_cpu, &event_, take_record, this, nullptr));
    return buffers_ ? 0 : errno;
  }

  int poll_fd() const override { return perf_buffer__epoll_fd(buffers_.get()); }
  bool drain(const Visit& visit) override {
    // After what an earlier visit left the buffers themselves are yet to be looked at.
    const bool more = next_ < waiting_.size() || collect();
    while (next_ < waiting_.size()) {
      const Waiting& next = waiting_[next_++];
      if (!visit(Bytes(bytes_).subspan(next.begin, next.size))) return true;
    }
    return more;
  }

private:
  // True if a buffer had more than its share.
  bool collect() {
    waiting_.clear();
    bytes_.clear();
    next_ = 0;
    bool more = false;
    const std::size_t cpus = std::max<std::size_t>(perf_buffer__buffer_cnt(buffers_.get()), 1);
    std::size_t before = 0;
    do {
      before = waiting_.size();
      for (std::size_t i = 0; i < perf_buffer__buffer_cnt(buffers_.get()); ++i) {
        left_ = std::max<std::size_t>(most_records_per_drain / cpus, 1);
        perf_buffer__consume_buffer(buffers_.get(), i);
        more = more || left_ == 0;
      }
      more = more || waiting_.size() >= most_records_per_drain;
    } while (!more && waiting_.size() != before);
    std::ranges::sort(waiting_, {}, &Waiting::time_ns);
    return more;
  }

  // What the kernel says of lost samples is left aside: the program counts them itself.
  static bpf_perf_event_ret take_record(void* context, int /*cpu*/, perf_event_header* header) {
    auto& reader = *static_cast<PerfReader*>(context);
    if (header->type != PERF_RECORD_SAMPLE || header->size < sizeof(*header))
      return LIBBPF_PERF_EVENT_CONT;
    const auto sample =
        parse_perf_sample({reinterpret_cast<const std::byte*>(header) + sizeof(*header),
                           header->size - sizeof(*header)},
                          reader.event_);
    if (!sample || sample->raw.size() < sizeof(probe_record)) return LIBBPF_PERF_EVENT_CONT;
    reader.keep(*sample);
    --reader.left_;
    if (reader.bytes_.size() > most_bytes_per_drain) reader.left_ = 0;
    return reader.left_ != 0 ? LIBBPF_PERF_EVENT_CONT : LIBBPF_PERF_EVENT_ERROR;
  }

  void keep(const PerfSample& sample) {
    probe_record record;
    std::memcpy(&record, sample.raw.data(), sizeof(record));
    const std::size_t begin = bytes_.size();
    bytes_.insert(bytes_.end(), sample.raw.begin(), sample.raw.end());
    if (sample.from && sample.raw.size() >= reading_.kept_size)
      add_stack(begin, sample.from->stack);
    waiting_.push_back({.time_ns = record.time_ns, .begin = begin, .size = bytes_.size() - begin});
  }

  // Behind the record, in the place of the padding.
  void add_stack(std::size_t record, Bytes stack) {
    bytes_.resize(record + reading_.kept_size);
    std::byte* const head = bytes_.data() + bytes_.size() - sizeof(stack_head);
    const auto size = static_cast<std::uint32_t>(stack.size());
    std::memcpy(head + offsetof(stack_head, size), &size, sizeof(size));
    bytes_.insert(bytes_.end(), stack.begin(), stack.end());
  }

  struct Free {
    void operator()(perf_buffer* buffers) const { perf_buffer__free(buffers); }
  };
  struct Waiting {
    std::uint64_t time_ns = 0;
    std::size_t begin = 0; // in bytes_
    std::size_t size = 0;  // with the padding, or the stack
  };
  PerfReading reading_;
  perf_event_attr event_ = {};
  std::vector<Waiting> waiting_;
  std::vector<std::byte> bytes_;
  std::size_t next_ = 0;                       // of waiting_, to be handed out
  std::size_t left_ = 0;                       // that the buffer being read may add
  std::unique_ptr<perf_buffer, Free> buffers_; // calls back with `this`
};

} // namespace

Result<std::unique_ptr<RecordReader>> open_ring_reader(int map) {
  auto reader = std::make_unique<RingReader>(map);
  if (!reader->open()) return fail(system_error(errno, "cannot map the BPF ring buffer"));
  return reader;
}

Result<std::unique_ptr<RecordReader>> open_perf_reader(int map, const PerfReading& reading) {
  // Beyond 512 KiB for each CPU memory has to be locked, which takes a capability or a limit
  // (/proc/sys/kernel/perf_event_mlock_kb).
  constexpr std::size_t least = 64U << 10;
  const auto cpus = possible_cpus();
  if (!cpus) return fail(cpus.error());
  const auto page = static_cast<std::size_t>(::getpagesize());
  int error = 0;
  for (std::size_t size = std::max(std::bit_floor(reading.bytes / *cpus), least); size >= least;
       size /= 2) {
    const auto wake_at =
        static_cast<std::uint32_t>(std::min<std::size_t>(WAKE_AT_BACKLOG, size / 2));
    auto reader = std::make_unique<PerfReader>(reading);
    error = reader->open(map, std::max<std::size_t>(size / page, 1), wake_at);
    if (error == 0) return reader;
    if (error != EPERM && error != ENOMEM) break;
  }
  return fail(system_error(error, "cannot map the perf buffers"));
}

} // namespace uprobectl
