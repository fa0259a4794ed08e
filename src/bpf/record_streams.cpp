#include "bpf/output_event.hpp"
#include "bpf/perf_sample.hpp"
#include "uprobectl/bpf/maps.hpp"

#include <algorithm>
#include <atomic>
#include <bpf/libbpf.h>
#include <cerrno>
#include <unistd.h>

namespace uprobectl {

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
