#include "process/mapping_watch.hpp"

#include "process/perf_records.hpp"
#include "process/proc.hpp"
#include "util/numbers.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <linux/perf_event.h>
#include <set>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uprobectl {

namespace {

constexpr std::size_t ring_size = std::size_t{128} << 10; // bytes, a power of two

struct CpuRing {
  UniqueFd fd;
  perf_event_mmap_page* head = nullptr; // its page; the ring follows
  std::size_t mapped = 0;               // bytes

  CpuRing(UniqueFd event, void* start, std::size_t size)
      : fd(std::move(event)), head(static_cast<perf_event_mmap_page*>(start)), mapped(size) {}
  CpuRing(CpuRing&& other) noexcept
      : fd(std::move(other.fd)), head(std::exchange(other.head, nullptr)), mapped(other.mapped) {}
  CpuRing& operator=(CpuRing&&) = delete;
  CpuRing(const CpuRing&) = delete;
  CpuRing& operator=(const CpuRing&) = delete;
  ~CpuRing() {
    if (head != nullptr) ::munmap(head, mapped);
  }

  // Records must not be read before the head that says they are there, nor overwritten before
  // they are read (Linux kernel/events/ring_buffer.c, perf_output_put_handle).
  template <typename Visit>
  void drain(const Visit& visit) {
    const std::uint64_t end = __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE);
    const Bytes ring{reinterpret_cast<const std::byte*>(head) + (mapped - ring_size), ring_size};
    visit_records(ring, head->data_tail, end, visit);
    __atomic_store_n(&head->data_tail, end, __ATOMIC_RELEASE);
  }
};

// "0-3,6"
std::vector<int> parse_cpus(std::string_view text) {
  constexpr int most = 8192; // CONFIG_NR_CPUS of the largest kernels
  std::vector<int> cpus;
  while (!text.empty()) {
    const auto first = take_number<int>(text);
    if (!first) break;
    auto last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number<int>(text);
      if (!last) break;
    }
    for (int cpu = *first; cpu <= std::min(*last, most); ++cpu) cpus.push_back(cpu);
    if (!text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  return cpus;
}

// Nothing for a CPU that is not there.
Result<std::optional<CpuRing>> open_ring(int cpu) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_DUMMY;
  attributes.sample_type = PERF_SAMPLE_TIME;
  attributes.sample_id_all = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.mmap = 1;
  attributes.mmap2 = 1; // with the file's identity (Linux 3.16)
  attributes.task = 1;  // fork, exit
  attributes.comm = 1;
  attributes.comm_exec = 1;
  attributes.watermark = 1;
  attributes.wakeup_watermark = ring_size / 2;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  UniqueFd fd{static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC))};
  if (!fd && errno == ENODEV) return std::nullopt;
  if (!fd && errno == ENOSYS) return fail(ErrorKind::unsupported, "this kernel has no perf events");
  if (!fd) return fail(system_error(errno, "what processes map cannot be watched"));
  const std::size_t size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + ring_size;
  void* const start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (start == MAP_FAILED)
    return fail(system_error(errno, "the ring of what processes map cannot be had"));
  return CpuRing(std::move(fd), start, size);
}

} // namespace

struct MappingWatch::State {
  std::vector<CpuRing> rings;
  UniqueFd epoll;
  std::set<pid_t> followed; // those whose events count; empty: everyone's
  std::uint64_t lost = 0;

  // Records come by time, so that of a fork comes before its child's.
  bool is_followed(const MappingEvent& event) {
    if (followed.empty()) return true;
    if (event.kind == MappingEvent::Kind::forked && followed.contains(event.parent))
      followed.insert(event.pid);
    const bool is = followed.contains(event.pid);
    if (is && event.kind == MappingEvent::Kind::ended && followed.size() > 1)
      followed.erase(event.pid);
    return is;
  }
};

MappingWatch::MappingWatch(std::unique_ptr<State> state) : state_(std::move(state)) {}
MappingWatch::MappingWatch(MappingWatch&&) noexcept = default;
MappingWatch& MappingWatch::operator=(MappingWatch&&) noexcept = default;
MappingWatch::~MappingWatch() = default;

Result<MappingWatch> MappingWatch::start(std::span<const pid_t> pids) {
  auto state = std::make_unique<State>();
  state->followed.insert(pids.begin(), pids.end());
  state->epoll = UniqueFd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!state->epoll) return fail(system_error(errno, "epoll"));
  const auto online = read_pseudo_file("/sys/devices/system/cpu/online");
  if (!online) return fail(online.error());
  for (const int cpu : parse_cpus(*online)) {
    auto ring = open_ring(cpu);
    if (!ring) return fail(std::move(ring).error());
    if (!*ring) continue;
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(state->epoll.get(), EPOLL_CTL_ADD, (*ring)->fd.get(), &event) != 0)
      return fail(system_error(errno, "epoll"));
    state->rings.push_back(std::move(**ring));
  }
  return MappingWatch(std::move(state));
}

void MappingWatch::follow(pid_t pid) {
  if (!state_->followed.empty()) state_->followed.insert(pid);
}

int MappingWatch::fd() const { return state_->epoll.get(); }
std::uint64_t MappingWatch::lost() const { return state_->lost; }

void MappingWatch::drain(const std::function<void(const MappingEvent&)>& visit) {
  std::vector<MappingEvent> events;
  for (CpuRing& ring : state_->rings)
    ring.drain([&](Bytes record) {
      state_->lost += lost_records(record);
      if (auto event = parse_mapping_record(record)) events.push_back(std::move(*event));
    });
  std::vector<std::size_t> order(events.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  // Of equal times as they were read: those of one CPU are in order.
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(events[i].time_ns, i); });
  for (const std::size_t i : order)
    if (state_->is_followed(events[i])) visit(events[i]);
}

} // namespace uprobectl
