// SPDX-License-Identifier: Apache-2.0
#include "process/mapping_watch.hpp"

#include "process/proc.hpp"
#include "util/clock.hpp"
#include "util/numbers.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <iterator>
#include <linux/perf_event.h>
#include <map>
#include <set>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace uprobectl::process {

namespace {

constexpr std::uint64_t record_header_size = 8;
constexpr std::uint64_t time_size = 8;          // at the end of every record
constexpr std::uint64_t path_at = 72;           // in PERF_RECORD_MMAP2
constexpr std::uint64_t comm_at = 16;           // in PERF_RECORD_COMM
constexpr std::uint16_t has_build_id = 1 << 14; // PERF_RECORD_MISC_MMAP_BUILD_ID (Linux 5.12)

struct Header {
  std::uint32_t type = 0;
  std::uint16_t misc = 0;
  std::uint16_t size = 0;
};

std::optional<Header> read_header(Bytes bytes) {
  const auto type = read_at<std::uint32_t>(bytes, 0);
  const auto misc = read_at<std::uint16_t>(bytes, 4);
  const auto size = read_at<std::uint16_t>(bytes, 6);
  if (!size || *size < record_header_size) return std::nullopt;
  return Header{*type, *misc, *size};
}

std::optional<pid_t> pid_at(Bytes record, std::uint64_t offset) {
  const auto number = read_at<std::uint32_t>(record, offset);
  const auto pid = static_cast<pid_t>(number.value_or(0));
  if (pid <= 0) return std::nullopt; // not in this pid namespace
  return pid;
}

std::optional<Mapping> mapping_of(Bytes record, std::uint16_t misc) {
  const auto start = read_at<std::uint64_t>(record, 16);
  const auto size = read_at<std::uint64_t>(record, 24);
  const auto offset = read_at<std::uint64_t>(record, 32);
  const auto protection = read_at<std::uint32_t>(record, 64);
  const auto path = c_string_at(record, path_at);
  if (!path) return std::nullopt;
  const auto end = checked_add(*start, *size);
  if (!end || *size == 0) return std::nullopt;
  Mapping mapping;
  mapping.start = *start;
  mapping.end = *end;
  mapping.offset = {*offset};
  mapping.executable = (*protection & PROT_EXEC) != 0;
  mapping.readable = (*protection & PROT_READ) != 0;
  if ((misc & has_build_id) == 0)
    mapping.identity = {
        ::makedev(*read_at<std::uint32_t>(record, 40), *read_at<std::uint32_t>(record, 44)),
        *read_at<std::uint64_t>(record, 48)};
  std::string_view name = *path;
  mapping.deleted = take_deleted_mark(name);
  // /proc/PID/maps leaves this name empty.
  if (name == "//anon") name = {};
  mapping.path = name;
  return mapping;
}

constexpr std::size_t ring_size = std::size_t{128} << 10; // bytes, a power of two

struct CpuRing {
  UniqueFd fd;
  perf_event_mmap_page* head = nullptr; // control page, followed by the ring
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

  // Acquire data_head before reading records and release data_tail after it (Linux
  // kernel/events/ring_buffer.c, perf_output_put_handle).
  template <typename Visit>
  void drain(const Visit& visit) {
    const std::uint64_t end = __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE);
    const Bytes ring{reinterpret_cast<const std::byte*>(head) + (mapped - ring_size), ring_size};
    visit_records(ring, head->data_tail, end, visit);
    __atomic_store_n(&head->data_tail, end, __ATOMIC_RELEASE);
  }
};

// Parses a CPU list such as "0-3,6".
std::vector<int> parse_cpus(std::string_view text) {
  constexpr int max_cpu = 8192; // CONFIG_NR_CPUS of the largest kernels
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
    for (int cpu = *first; cpu <= std::min(*last, max_cpu); ++cpu) cpus.push_back(cpu);
    if (!text.starts_with(',')) break;
    text.remove_prefix(1);
  }
  return cpus;
}

// Returns nullopt for an offline CPU.
Result<std::optional<CpuRing>> open_ring(int cpu, bool wakes_at_once) {
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
  attributes.wakeup_watermark = wakes_at_once ? 1 : ring_size / 2;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  UniqueFd fd{static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC))};
  if (!fd && errno == ENODEV) return std::nullopt;
  if (!fd && errno == ENOSYS) return fail(ErrorKind::unsupported, "this kernel has no perf events");
  if (!fd) return fail(system_error(errno, "cannot watch the mappings of processes"));
  const std::size_t size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + ring_size;
  void* const start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (start == MAP_FAILED)
    return fail(system_error(errno, "cannot map the ring buffer of a perf event"));
  return CpuRing(std::move(fd), start, size);
}

} // namespace

std::optional<MappingEvent> parse_mapping_record(Bytes record) {
  const auto header = read_header(record);
  if (!header || header->size != record.size() || record.size() < record_header_size + time_size)
    return std::nullopt;
  const auto pid = pid_at(record, 8);
  const auto second = pid_at(record, 12); // thread id; for a fork the parent
  if (!pid || !second) return std::nullopt;
  MappingEvent event;
  event.pid = *pid;
  event.time_ns = *read_at<std::uint64_t>(record, record.size() - time_size);
  const Bytes content = record.first(record.size() - time_size);
  switch (header->type) {
  case PERF_RECORD_MMAP2: {
    auto mapping = mapping_of(content, header->misc);
    if (!mapping) return std::nullopt;
    event.mapping = std::move(*mapping);
    return event;
  }
  case PERF_RECORD_FORK:
    if (content.size() < 24 || *pid == *second) return std::nullopt; // a thread
    event.kind = MappingEvent::Kind::forked;
    event.parent = *second;
    return event;
  case PERF_RECORD_EXIT:
    if (pid_at(content, 16) != *pid) return std::nullopt; // a thread
    event.kind = MappingEvent::Kind::ended;
    return event;
  case PERF_RECORD_COMM: {
    const bool executes = (header->misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
    if (!executes && *pid != *second) return std::nullopt; // a thread
    event.kind = executes ? MappingEvent::Kind::executed : MappingEvent::Kind::renamed;
    event.name = c_string_at(content, comm_at).value_or("");
    return event;
  }
  default:
    return std::nullopt;
  }
}

std::optional<ThreadEnd> parse_thread_end(Bytes record) {
  const auto header = read_header(record);
  if (!header || header->type != PERF_RECORD_EXIT || header->size != record.size() ||
      record.size() < record_header_size + 16 + time_size)
    return std::nullopt;
  const auto pid = pid_at(record, 8);
  const auto tid = pid_at(record, 16);
  if (!pid || !tid || *pid == *tid) return std::nullopt;
  return ThreadEnd{.pid = *pid,
                   .tid = *tid,
                   .time_ns = *read_at<std::uint64_t>(record, record.size() - time_size)};
}

std::uint64_t lost_records(Bytes record) {
  const auto header = read_header(record);
  if (!header || header->type != PERF_RECORD_LOST) return 0;
  return read_at<std::uint64_t>(record, 16).value_or(0);
}

void visit_records(Bytes ring, std::uint64_t tail, std::uint64_t head,
                   const std::function<void(Bytes)>& visit) {
  if (ring.empty() || head - tail > ring.size()) return;
  std::vector<std::byte> whole; // copy of a record that wraps around
  const auto bytes_at = [&](std::uint64_t position, std::uint64_t size) -> Bytes {
    const std::uint64_t at = position % ring.size();
    const std::uint64_t before_end = std::min<std::uint64_t>(size, ring.size() - at);
    if (before_end == size) return ring.subspan(at, size);
    whole.assign(ring.begin() + static_cast<std::ptrdiff_t>(at), ring.end());
    whole.insert(whole.end(), ring.begin(),
                 ring.begin() + static_cast<std::ptrdiff_t>(size - before_end));
    return whole;
  };
  while (head - tail >= record_header_size) {
    const auto header = read_header(bytes_at(tail, record_header_size));
    if (!header || header->size > head - tail) return;
    visit(bytes_at(tail, header->size));
    tail += header->size;
  }
}

MappingEventQueue::MappingEventQueue(std::span<const pid_t> pids, HasOtherThread has_other_thread)
    : has_other_thread_(std::move(has_other_thread)), follows_all_(pids.empty()),
      followed_(pids.begin(), pids.end()) {}

void MappingEventQueue::follow(pid_t pid) {
  if (!follows_all_) followed_.insert(pid);
}

void MappingEventQueue::add(Bytes record) {
  lost_ += lost_records(record);
  if (auto event = parse_mapping_record(record)) {
    waiting_.push_back({.event = std::move(*event), .ended_thread = {}, .number = read_++});
  } else if (const auto end = parse_thread_end(record)) {
    MappingEvent made;
    made.kind = MappingEvent::Kind::ended;
    made.pid = end->pid;
    made.time_ns = end->time_ns;
    waiting_.push_back({.event = std::move(made), .ended_thread = end->tid, .number = read_++});
  }
}

void MappingEventQueue::take(std::uint64_t until_ns,
                             const std::function<void(const MappingEvent&)>& visit) {
  std::ranges::sort(waiting_, {}, [](const Recorded& each) {
    return std::pair(each.event.time_ns, each.number);
  });
  std::vector<Recorded> later;
  const auto first_later = std::ranges::upper_bound(
      waiting_, until_ns, {}, [](const Recorded& each) { return each.event.time_ns; });
  std::move(first_later, waiting_.end(), std::back_inserter(later));
  waiting_.erase(first_later, waiting_.end());
  std::vector<Recorded> events = std::exchange(waiting_, std::move(later));

  std::set<pid_t> ended_threads;
  for (const Recorded& each : events)
    if (each.ended_thread) ended_threads.insert(*each.ended_thread);
  std::map<pid_t, std::uint64_t> executed; // by pid: when, for the last time
  for (const Recorded& each : events)
    if (each.event.kind == MappingEvent::Kind::executed)
      executed[each.event.pid] = each.event.time_ns;
  for (Recorded& each : events) {
    MappingEvent& event = each.event;
    if (!is_followed(event)) continue;
    complete(event);
    if (event.kind == MappingEvent::Kind::ended) {
      if (!each.ended_thread) without_main_thread_.insert(event.pid);
      const auto later_program = executed.find(event.pid);
      const bool goes_on =
          later_program != executed.end() && later_program->second >= event.time_ns;
      if (goes_on || !ends_process(each, ended_threads)) continue;
    }
    visit(event);
  }
}

bool MappingEventQueue::is_followed(const MappingEvent& event) {
  if (follows_all_) return true;
  // Events are sorted by time, so a fork precedes the events of the child.
  if (event.kind == MappingEvent::Kind::forked) {
    if (followed_.contains(event.parent))
      followed_.insert(event.pid);
    else
      followed_.erase(event.pid); // another process had this pid
  }
  return followed_.contains(event.pid);
}

// Sets what is known from earlier events of the process.
void MappingEventQueue::complete(MappingEvent& event) {
  if (event.kind == MappingEvent::Kind::executed)
    event.by_other_thread = without_main_thread_.contains(event.pid);
  if (event.kind == MappingEvent::Kind::executed || event.kind == MappingEvent::Kind::forked) {
    without_main_thread_.erase(event.pid);
    outlived_.erase(event.pid);
    std::erase(ended_, event.pid);
  }
}

// Whether the end of this thread ends its process. `threads`: those whose end was recorded in the
// same time.
bool MappingEventQueue::ends_process(const Recorded& recorded, const std::set<pid_t>& threads) {
  const pid_t pid = recorded.event.pid;
  if (recorded.ended_thread && !outlived_.contains(pid)) return false;
  if (has_other_thread_(pid, threads)) {
    outlived_.insert(pid);
    return false;
  }
  outlived_.erase(pid);
  forget_later(pid);
  return true;
}

// A thread that executes a program has the pid of its process before the kernel reports the
// program: until then the process seems to have ended.
void MappingEventQueue::forget_later(pid_t pid) {
  constexpr std::size_t max_ended = 1024;
  ended_.push_back(pid);
  if (ended_.size() <= max_ended) return;
  followed_.erase(ended_.front());
  without_main_thread_.erase(ended_.front());
  ended_.pop_front();
}

struct MappingWatch::State {
  std::vector<CpuRing> rings;
  UniqueFd epoll;
  MappingEventQueue events;
};

MappingWatch::MappingWatch(std::unique_ptr<State> state) : state_(std::move(state)) {}
MappingWatch::MappingWatch(MappingWatch&&) noexcept = default;
MappingWatch& MappingWatch::operator=(MappingWatch&&) noexcept = default;
MappingWatch::~MappingWatch() = default;

Result<MappingWatch> MappingWatch::start(std::span<const pid_t> pids, bool wakes_at_once) {
  const auto has_other_thread = [](pid_t pid, const std::set<pid_t>& ended) {
    return find_other_thread(pid, [&](pid_t thread) { return ended.contains(thread); }).has_value();
  };
  auto state = std::make_unique<State>(State{{}, {}, MappingEventQueue(pids, has_other_thread)});
  state->epoll = UniqueFd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!state->epoll) return fail(system_error(errno, "epoll"));
  const auto online = read_pseudo_file("/sys/devices/system/cpu/online");
  if (!online) return fail(online.error());
  for (const int cpu : parse_cpus(*online)) {
    auto ring = open_ring(cpu, wakes_at_once);
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

void MappingWatch::follow(pid_t pid) { state_->events.follow(pid); }

int MappingWatch::fd() const { return state_->epoll.get(); }
std::uint64_t MappingWatch::lost() const { return state_->events.lost(); }

void MappingWatch::drain(const std::function<void(const MappingEvent&)>& visit) {
  // Records that arrive meanwhile are taken at once, because they do not wake the caller again.
  for (int round = 0; round == 0 || (round < 3 && state_->events.is_waiting()); ++round) {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    for (CpuRing& ring : state_->rings)
      ring.drain([&](Bytes record) { state_->events.add(record); });
    state_->events.take(now, visit);
  }
}

} // namespace uprobectl::process
