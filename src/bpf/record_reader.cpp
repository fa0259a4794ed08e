#include "bpf/record_reader.hpp"

#include "bpf/maps.hpp"
#include "bpf/perf_sample.hpp"
#include "bpf/permission.hpp"
#include "bpf/record.h"

#include <algorithm>
#include <atomic>
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

namespace {

struct FreeRings {
  void operator()(ring_buffer* rings) const { ring_buffer__free(rings); }
};
struct FreePerfBuffer {
  void operator()(perf_buffer* buffer) const { perf_buffer__free(buffer); }
};

constexpr std::size_t perf_pages = 64;         // for each CPU
constexpr std::size_t pages_for_stacks = 1024; // if so many may be locked

// A drain ends here even if a program refills a buffer as fast as it is read.
constexpr std::uint32_t most_per_drain = 1U << 16;

using Visit = std::function<bool(std::size_t map, Bytes sent)>;

// What the callbacks of all buffers share.
struct Draining {
  const Visit* visit = nullptr;
  std::uint32_t left = 0;

  bool take(std::size_t map, Bytes record) {
    if (visit == nullptr || left == 0) return false;
    if (!(*visit)(map, record)) left = 0;
    return left != 0 && --left != 0;
  }
};

// One buffer's callback context: stays where it is.
struct Source {
  Draining& draining;
  std::size_t map = 0;
  perf_event_attr event = {};          // of a perf event array
  std::atomic<std::uint64_t> lost = 0; // as its buffers tell; asked for while another thread drains
};

int take_from_ring(void* context, void* data, std::size_t size) {
  const auto& source = *static_cast<Source*>(context);
  return source.draining.take(source.map, {static_cast<const std::byte*>(data), size}) ? 0 : -1;
}

// The kernel's layout of the two record types (perf_event_open(2)).
bpf_perf_event_ret take_from_perf(void* context, int /*cpu*/, perf_event_header* header) {
  auto& source = *static_cast<Source*>(context);
  const Bytes body{reinterpret_cast<const std::byte*>(header) + sizeof(*header),
                   header->size - sizeof(*header)};
  if (header->type == PERF_RECORD_LOST && body.size() >= 16) {
    std::uint64_t count = 0;
    std::memcpy(&count, body.data() + 8, sizeof(count));
    source.lost += count;
  }
  if (header->type != PERF_RECORD_SAMPLE || body.size() < 4) return LIBBPF_PERF_EVENT_CONT;
  return source.draining.take(source.map, body) ? LIBBPF_PERF_EVENT_CONT : LIBBPF_PERF_EVENT_ERROR;
}

// What read() gives of a perf event that counts its lost records (Linux 6.0, 119a784c8127). A
// record in the buffer tells of losses, too, but only when there is room again: never of the last.
struct Reading {
  std::uint64_t value = 0;
  std::uint64_t lost = 0;
};

// Null with errno.
perf_buffer* open_perf_buffer(const UserMap& map, Source& source, const StreamStack& stack) {
  source.event = bpf_output_event();
  source.event.wakeup_events = 1;
  source.event.read_format = PERF_FORMAT_LOST;
  ask_for_stack(source.event, stack);
  const bool large = source.event.sample_type != PERF_SAMPLE_RAW;
  for (std::size_t pages = large ? pages_for_stacks : perf_pages;; pages /= 2) {
    perf_buffer* opened =
        perf_buffer__new_raw(map.fd.get(), pages, &source.event, take_from_perf, &source, nullptr);
    if (opened == nullptr && errno == EINVAL && source.event.read_format != 0) {
      source.event.read_format = 0;
      opened = perf_buffer__new_raw(map.fd.get(), pages, &source.event, take_from_perf, &source,
                                    nullptr);
    }
    const bool memory = errno == EPERM || errno == ENOMEM;
    if (opened != nullptr || !memory || pages <= perf_pages) return opened;
  }
}

// Of the buffers of all processors.
std::uint64_t lost_in(perf_buffer* buffers) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < perf_buffer__buffer_cnt(buffers); ++i) {
    Reading reading;
    if (::read(perf_buffer__buffer_fd(buffers, i), &reading, sizeof(reading)) == sizeof(reading))
      sum += reading.lost;
  }
  return sum;
}

} // namespace

struct RecordStreams::State {
  Draining draining;
  std::vector<std::unique_ptr<Source>> sources;
  std::unique_ptr<ring_buffer, FreeRings> rings; // all of them
  struct PerfBuffers {
    const Source* source = nullptr;
    std::unique_ptr<perf_buffer, FreePerfBuffer> all;
  };
  std::vector<PerfBuffers> perf_buffers;
  std::vector<int> poll_fds;
};

RecordStreams::RecordStreams(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordStreams::RecordStreams(RecordStreams&&) noexcept = default;
RecordStreams& RecordStreams::operator=(RecordStreams&&) noexcept = default;
RecordStreams::~RecordStreams() = default;

Result<RecordStreams> RecordStreams::open(std::span<const UserMap> maps,
                                          std::span<const StreamStack> stacks) {
  auto state = std::make_unique<State>();
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const UserMap& map = maps[i];
    if (map.use != MapUse::ring_buffer && map.use != MapUse::perf_buffer) continue;
    state->sources.push_back(std::unique_ptr<Source>(new Source{state->draining, i}));
    Source* const source = state->sources.back().get();
    if (map.use == MapUse::perf_buffer) {
      perf_buffer* const opened =
          open_perf_buffer(map, *source, stacks.empty() ? StreamStack() : stacks[i]);
      if (opened == nullptr)
        return fail(system_error(errno, "cannot read perf buffer '" + map.name + "'"));
      state->perf_buffers.push_back({source, std::unique_ptr<perf_buffer, FreePerfBuffer>(opened)});
      state->poll_fds.push_back(perf_buffer__epoll_fd(opened));
      continue;
    }
    int error = 0;
    if (!state->rings) {
      state->rings.reset(ring_buffer__new(map.fd.get(), take_from_ring, source, nullptr));
      if (!state->rings) error = errno;
    } else {
      error = -ring_buffer__add(state->rings.get(), map.fd.get(), take_from_ring, source);
    }
    if (error != 0) return fail(system_error(error, "cannot read ring buffer '" + map.name + "'"));
  }
  if (state->rings) state->poll_fds.push_back(ring_buffer__epoll_fd(state->rings.get()));
  return RecordStreams(std::move(state));
}

std::span<const int> RecordStreams::poll_fds() const { return state_->poll_fds; }

bool RecordStreams::drain(const Visit& visit) {
  state_->draining.visit = &visit;
  state_->draining.left = most_per_drain;
  if (state_->rings) ring_buffer__consume(state_->rings.get());
  for (const auto& buffers : state_->perf_buffers)
    if (state_->draining.left != 0) perf_buffer__consume(buffers.all.get());
  state_->draining.visit = nullptr;
  return state_->draining.left == 0;
}

std::optional<SentRecord> RecordStreams::record_of(std::size_t map, Bytes sent) const {
  const auto source =
      std::ranges::find_if(state_->sources, [&](const auto& each) { return each->map == map; });
  if (source == state_->sources.end()) return std::nullopt;
  if ((*source)->event.size == 0) return SentRecord{.record = sent, .from = {}};
  auto sample = parse_perf_sample(sent, (*source)->event);
  if (!sample) return std::nullopt;
  return SentRecord{.record = sample->raw, .from = std::move(sample->from)};
}

std::uint64_t RecordStreams::lost() const {
  std::uint64_t sum = 0;
  for (const auto& [source, all] : state_->perf_buffers)
    sum += source->event.read_format != 0 ? lost_in(all.get()) : source->lost.load();
  return sum;
}

} // namespace uprobectl
