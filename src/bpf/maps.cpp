// SPDX-License-Identifier: Apache-2.0
#include "bpf/maps.hpp"

#include "bpf/btf_reading.hpp"
#include "bpf/kernel_types.hpp"
#include "bpf/load_error.hpp"
#include "bpf/pin.hpp"
#include "bpf/record_reader.hpp"
#include "bpf/ring.hpp"

#include <algorithm>
#include <atomic>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <set>
#include <unistd.h>

namespace uprobectl::bpf {

namespace {

// A map as its source declares it in SEC(".maps").
struct DeclaredMap {
  std::string name;
  std::uint32_t type = 0; // BPF_MAP_TYPE_*; 0: unknown
};

// __uint(type, N) is a pointer to an array of N elements (libbpf, bpf_helpers.h).
std::uint32_t declared_type(const btf* types, std::uint32_t variable) {
  const btf_type* const shape = resolved_type(types, variable);
  if (shape == nullptr || !btf_is_struct(shape)) return 0;
  for (int i = 0; i < btf_vlen(shape); ++i) {
    const btf_member& member = btf_members(shape)[i];
    if (btf_name(types, member.name_off) != "type") continue;
    const btf_type* const pointer = btf__type_by_id(types, member.type);
    const btf_type* const array =
        pointer != nullptr && btf_is_ptr(pointer) ? btf__type_by_id(types, pointer->type) : nullptr;
    return array != nullptr && btf_is_array(array) ? btf_array(array)->nelems : 0;
  }
  return 0;
}

std::vector<DeclaredMap> list_declared_maps(const btf* types, std::uint32_t section) {
  std::vector<DeclaredMap> maps;
  const btf_type* const list = btf__type_by_id(types, section);
  for (int i = 0; i < btf_vlen(list); ++i) {
    const std::uint32_t id = btf_var_secinfos(list)[i].type;
    const btf_type* const variable = btf__type_by_id(types, id);
    if (variable != nullptr)
      maps.push_back({.name = std::string(btf_name(types, variable->name_off)),
                      .type = declared_type(types, id)});
  }
  return maps;
}

TableEntry make_table_entry(const std::vector<std::byte>& key, const std::vector<std::byte>& memory,
                            const UserMap& map, std::size_t cpus) {
  TableEntry entry{.key = key, .values = {}};
  for (std::size_t cpu = 0; cpu < cpus; ++cpu) {
    const auto begin =
        memory.begin() + static_cast<std::ptrdiff_t>(cpu * cpu_stride(map.value_size));
    entry.values.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(map.value_size));
  }
  return entry;
}

struct FreePerfBuffer {
  void operator()(perf_buffer* buffer) const { perf_buffer__free(buffer); }
};

constexpr std::size_t perf_pages = 64;         // for each CPU
constexpr std::size_t pages_for_stacks = 1024; // if the limit of locked memory permits

// Ends a drain even if a program refills a buffer as fast as it is read.
constexpr std::uint32_t max_per_drain = 1U << 16;

using Visit = std::function<bool(std::size_t map, Bytes sent)>;

// The state of one drain(), shared by the callbacks of all buffers.
struct DrainState {
  const Visit* visit = nullptr;
  std::uint32_t left = 0;

  bool take(std::size_t map, Bytes record) {
    if (visit == nullptr || left == 0) return false;
    if (!(*visit)(map, record)) left = 0;
    return left != 0 && --left != 0;
  }
};

// The callback context of one buffer; its address must not change.
struct BufferSource {
  DrainState& draining;
  std::size_t map = 0;
  perf_event_attr event = {};          // of a perf event array
  std::atomic<std::uint64_t> lost = 0; // from its buffers; read while another thread drains
};

// The kernel's layout of the two record types (perf_event_open(2)).
bpf_perf_event_ret take_from_perf(void* context, int /*cpu*/, perf_event_header* header) {
  auto& source = *static_cast<BufferSource*>(context);
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

// The read() format of a perf event with PERF_FORMAT_LOST (Linux 6.0, 119a784c8127). Records in the
// buffer report losses too, but only once there is room again, so never the last ones.
struct PerfEventCounts {
  std::uint64_t value = 0;
  std::uint64_t lost = 0;
};

// Returns null and sets errno on failure.
perf_buffer* open_perf_buffer(const UserMap& map, BufferSource& source, const StackRequest& stack) {
  source.event = bpf_output_event();
  source.event.wakeup_events = 1;
  source.event.read_format = PERF_FORMAT_LOST;
  request_stack(source.event, stack);
  const bool large = source.event.sample_type != PERF_SAMPLE_RAW;
  for (std::size_t pages = large ? pages_for_stacks : perf_pages;; pages /= 2) {
    perf_buffer* opened =
        perf_buffer__new_raw(map.fd->get(), pages, &source.event, take_from_perf, &source, nullptr);
    if (opened == nullptr && errno == EINVAL && source.event.read_format != 0) {
      source.event.read_format = 0;
      opened = perf_buffer__new_raw(map.fd->get(), pages, &source.event, take_from_perf, &source,
                                    nullptr);
    }
    const bool memory = errno == EPERM || errno == ENOMEM;
    if (opened != nullptr || !memory || pages <= perf_pages) return opened;
  }
}

// Sums the buffers of all CPUs.
std::uint64_t read_lost_count(perf_buffer* buffers) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < perf_buffer__buffer_cnt(buffers); ++i) {
    PerfEventCounts counts;
    if (::read(perf_buffer__buffer_fd(buffers, i), &counts, sizeof(counts)) == sizeof(counts))
      sum += counts.lost;
  }
  return sum;
}

} // namespace

MapUse map_use_for_type(std::uint32_t type) {
  switch (type) {
  case BPF_MAP_TYPE_RINGBUF:
    return MapUse::ring_buffer;
  case BPF_MAP_TYPE_PERF_EVENT_ARRAY:
    return MapUse::perf_buffer;
  case BPF_MAP_TYPE_HASH:
  case BPF_MAP_TYPE_ARRAY:
  case BPF_MAP_TYPE_LRU_HASH:
  case BPF_MAP_TYPE_LPM_TRIE:
    return MapUse::table;
  case BPF_MAP_TYPE_PERCPU_HASH:
  case BPF_MAP_TYPE_PERCPU_ARRAY:
  case BPF_MAP_TYPE_LRU_PERCPU_HASH:
    return MapUse::per_cpu;
  case BPF_MAP_TYPE_STACK_TRACE:
    return MapUse::stack_table;
  case BPF_MAP_TYPE_ARRAY_OF_MAPS:
  case BPF_MAP_TYPE_HASH_OF_MAPS:
    return MapUse::map_table;
  case BPF_MAP_TYPE_QUEUE:
  case BPF_MAP_TYPE_STACK:
    return MapUse::queue;
  case BPF_MAP_TYPE_BLOOM_FILTER:
    return MapUse::bloom;
  default:
    return MapUse::other;
  }
}

Result<UserMap> describe_map(UniqueFd fd) {
  bpf_map_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0)
    return fail(bpf_load_error(errno, "cannot query a BPF map"));
  return UserMap{.fd = std::make_shared<const UniqueFd>(std::move(fd)),
                 .name = std::string(info.name, ::strnlen(info.name, sizeof(info.name))),
                 .pin = {},
                 .id = info.id,
                 // Its values are not addresses (BPF_F_STACK_BUILD_ID).
                 .use = (info.map_flags & BPF_F_STACK_BUILD_ID) != 0 ? MapUse::other
                                                                     : map_use_for_type(info.type),
                 .key_size = info.key_size,
                 .value_size = info.value_size,
                 .btf_id = info.btf_id,
                 .key_type = info.btf_key_type_id,
                 .value_type = info.btf_value_type_id};
}

Result<UserMap> open_pinned_map(const std::string& path) {
  auto fd = open_pin(path, "map");
  if (!fd) return fail(std::move(fd).error());
  auto map = describe_map(std::move(*fd));
  if (map) map->pin = path.substr(path.rfind('/') + 1);
  return map;
}

std::optional<std::uint32_t> find_map_id(int map) {
  bpf_map_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(map, &info, &size) != 0) return std::nullopt;
  return info.id;
}

std::optional<std::uint32_t> find_program_id(int program) {
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(program, &info, &size) != 0) return std::nullopt;
  return info.id;
}

Error may_not_list_maps() {
  return Error{ErrorKind::not_permitted, "this user may not list the maps of the program"}.hint(
      "needs CAP_SYS_ADMIN, or name the pinned maps: --map /sys/fs/bpf/…");
}

Result<std::vector<std::uint32_t>> list_map_ids(int program) {
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(program, &info, &size) != 0)
    return fail(bpf_load_error(errno, "cannot query a BPF program"));
  std::vector<std::uint32_t> ids(info.nr_map_ids);
  info = {};
  info.nr_map_ids = static_cast<std::uint32_t>(ids.size());
  info.map_ids = reinterpret_cast<std::uintptr_t>(ids.data());
  size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(program, &info, &size) != 0)
    return fail(bpf_load_error(errno, "cannot query a BPF program"));
  ids.resize(std::min<std::size_t>(ids.size(), info.nr_map_ids));
  return ids;
}

Result<std::vector<UserMap>> find_program_maps(int program) {
  const auto ids = list_map_ids(program);
  if (!ids) return fail(ids.error());
  std::vector<UserMap> maps;
  for (const std::uint32_t id : *ids) {
    auto map = open_map_by_id(id);
    if (!map && map.error().kind == ErrorKind::not_permitted) return fail(may_not_list_maps());
    if (!map) return fail(std::move(map).error());
    maps.push_back(std::move(*map));
  }
  return maps;
}

void complete_map_names(std::span<UserMap> maps, std::uint32_t btf_id) {
  constexpr std::size_t kept = 15; // BPF_OBJ_NAME_LEN - 1
  const OwnedBtf types(btf__load_from_kernel_by_id(btf_id));
  if (!types) return;
  const int list = btf__find_by_name_kind(types.get(), ".maps", BTF_KIND_DATASEC);
  if (list < 0) return;
  const std::vector<DeclaredMap> declared =
      list_declared_maps(types.get(), static_cast<std::uint32_t>(list));
  for (UserMap& map : maps) {
    if (map.name.size() != kept) continue;
    std::vector<std::string_view> fitting;
    for (const DeclaredMap& each : declared)
      if (each.name.starts_with(map.name) &&
          (each.type == 0 || map_use_for_type(each.type) == map.use))
        fitting.push_back(each.name);
    if (fitting.size() == 1) map.name = fitting.front();
  }
}

Result<Table> read_table(const UserMap& map, std::size_t max_entries) {
  const Result<std::size_t> known = map.use == MapUse::per_cpu ? possible_cpus() : 1;
  if (!known) return fail(known.error());
  const std::size_t cpus = *known;
  std::vector<std::byte> memory(cpu_stride(map.value_size) * cpus);
  std::vector<std::byte> key(map.key_size);
  std::vector<std::byte> next(map.key_size);
  Table table;
  // After a key that was deleted meanwhile the kernel begins with the first one again (Linux
  // kernel/bpf/hashtab.c, htab_map_get_next_key). Other programs must not keep us here forever.
  constexpr std::size_t most_repeated = 1U << 20;
  std::set<std::vector<std::byte>> seen;
  std::size_t repeated = 0;
  const void* from = nullptr;
  while (::bpf_map_get_next_key(map.fd->get(), from, next.data()) == 0) {
    if (seen.contains(next)) {
      if (++repeated == most_repeated) return table;
      key = next;
      from = key.data();
      continue;
    }
    if (table.entries.size() == max_entries) {
      table.cut = true;
      return table;
    }
    key = next;
    from = key.data();
    if (::bpf_map_lookup_elem(map.fd->get(), key.data(), memory.data()) == 0) {
      table.entries.push_back(make_table_entry(key, memory, map, cpus));
      seen.insert(key);
    } else if (errno != ENOENT) { // ENOENT: deleted meanwhile
      return fail(system_error(errno, "cannot read map '" + map.name + "'"));
    }
  }
  if (errno != ENOENT) return fail(system_error(errno, "cannot read map '" + map.name + "'"));
  return table;
}

Result<Table> take_queue(const UserMap& map, std::size_t max_values, bool removes) {
  Table table;
  std::vector<std::byte> value(map.value_size);
  while (table.entries.size() < max_values) {
    const int done = removes
                         ? ::bpf_map_lookup_and_delete_elem(map.fd->get(), nullptr, value.data())
                         : ::bpf_map_lookup_elem(map.fd->get(), nullptr, value.data());
    if (done != 0 && errno == ENOENT) return table;
    if (done != 0) return fail(system_error(errno, "cannot read map '" + map.name + "'"));
    table.entries.push_back({.key = {}, .values = {value}});
    if (!removes) return table;
  }
  table.cut = true;
  return table;
}

Result<bool> clear_table(const UserMap& map, Table& table) {
  const Result<std::size_t> cpus = map.use == MapUse::per_cpu ? possible_cpus() : 1;
  if (!cpus) return fail(cpus.error());
  std::vector<std::byte> memory(cpu_stride(map.value_size) * *cpus);
  const std::vector<std::byte> zeros(memory.size());
  bool in_one_step = true;
  // Returns whether there was an entry.
  const auto take = [&](TableEntry& entry) -> Result<bool> {
    const void* const key = entry.key.data();
    const bool is_taken = ::bpf_map_lookup_and_delete_elem(map.fd->get(), key, memory.data()) == 0;
    if (!is_taken && errno == ENOENT) return false; // deleted meanwhile
    if (!is_taken && ::bpf_map_lookup_elem(map.fd->get(), key, memory.data()) != 0) {
      if (errno == ENOENT) return false;
      return fail(system_error(errno, "cannot read map '" + map.name + "'"));
    }
    entry.values = make_table_entry(entry.key, memory, map, *cpus).values;
    if (is_taken) return true;
    in_one_step = false;
    if (::bpf_map_delete_elem(map.fd->get(), key) == 0 || errno == ENOENT) return true;
    // Elements of arrays cannot be deleted.
    if (errno != EINVAL || ::bpf_map_update_elem(map.fd->get(), key, zeros.data(), BPF_EXIST) != 0)
      return fail(system_error(errno, "cannot clear map '" + map.name + "'"));
    return true;
  };
  std::size_t kept = 0;
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    const auto taken = take(table.entries[i]);
    if (!taken) return fail(taken.error());
    if (*taken && kept != i) table.entries[kept] = std::move(table.entries[i]);
    kept += *taken ? 1 : 0;
  }
  table.entries.resize(kept);
  return in_one_step;
}

std::vector<std::uint64_t> stack_addresses(Bytes value) {
  std::vector<std::uint64_t> addresses;
  for (std::size_t at = 0;; at += sizeof(std::uint64_t)) {
    const std::uint64_t address = read_at<std::uint64_t>(value, at).value_or(0);
    if (address == 0) return addresses;
    addresses.push_back(address);
  }
}

std::optional<std::vector<std::uint64_t>> read_stack(const UserMap& map, std::uint32_t id) {
  std::vector<std::byte> bytes(map.value_size);
  if (map.use != MapUse::stack_table || map.key_size != sizeof(id) ||
      ::bpf_map_lookup_elem(map.fd->get(), &id, bytes.data()) != 0)
    return std::nullopt;
  return stack_addresses(bytes);
}

Result<UserMap> open_map_by_id(std::uint32_t id) {
  UniqueFd fd{::bpf_map_get_fd_by_id(id)};
  if (!fd && errno == EPERM)
    return fail(Error{ErrorKind::not_permitted, "this user may not open maps by their ids"}.hint(
        "needs CAP_SYS_ADMIN"));
  if (!fd) return fail(system_error(errno, "cannot open a map of the program"));
  return describe_map(std::move(fd));
}

struct RecordStreams::State {
  DrainState draining;
  std::vector<std::unique_ptr<BufferSource>> sources;
  std::vector<std::pair<const BufferSource*, MappedRing>> rings;
  struct PerfBuffers {
    const BufferSource* source = nullptr;
    std::unique_ptr<perf_buffer, FreePerfBuffer> all;
  };
  std::vector<PerfBuffers> perf_buffers;
};

RecordStreams::RecordStreams(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordStreams::RecordStreams(RecordStreams&&) noexcept = default;
RecordStreams& RecordStreams::operator=(RecordStreams&&) noexcept = default;
RecordStreams::~RecordStreams() = default;

Result<RecordStreams> RecordStreams::open(std::span<const UserMap> maps,
                                          std::span<const StackRequest> stacks) {
  auto state = std::make_unique<State>();
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const UserMap& map = maps[i];
    if (!is_buffer(map.use)) continue;
    state->sources.push_back(std::unique_ptr<BufferSource>(new BufferSource{state->draining, i}));
    BufferSource* const source = state->sources.back().get();
    if (map.use == MapUse::perf_buffer) {
      perf_buffer* const opened =
          open_perf_buffer(map, *source, stacks.empty() ? StackRequest() : stacks[i]);
      if (opened == nullptr)
        return fail(system_error(errno, "cannot read perf buffer '" + map.name + "'"));
      state->perf_buffers.push_back({source, std::unique_ptr<perf_buffer, FreePerfBuffer>(opened)});
      continue;
    }
    auto ring = MappedRing::open(map.fd->get());
    if (!ring)
      return fail(system_error(ring.error(), "cannot read ring buffer '" + map.name + "'"));
    state->rings.emplace_back(source, std::move(*ring));
  }
  return RecordStreams(std::move(state));
}

std::vector<int> RecordStreams::poll_fds() const {
  std::vector<int> fds;
  for (const auto& [source, ring] : state_->rings) fds.push_back(ring.poll_fd());
  for (const auto& buffers : state_->perf_buffers)
    fds.push_back(perf_buffer__epoll_fd(buffers.all.get()));
  return fds;
}

bool RecordStreams::drain(const Visit& visit) {
  state_->draining.visit = &visit;
  state_->draining.left = max_per_drain;
  const auto now = std::chrono::steady_clock::now();
  for (auto& [source, ring] : state_->rings) {
    const auto take = [&](Bytes record) { return state_->draining.take(source->map, record); };
    if (state_->draining.left != 0) ring.cursor().drain(now, take);
  }
  for (const auto& buffers : state_->perf_buffers)
    if (state_->draining.left != 0) perf_buffer__consume(buffers.all.get());
  state_->draining.visit = nullptr;
  return state_->draining.left == 0;
}

bool RecordStreams::waits() const {
  return std::ranges::any_of(state_->rings,
                             [](const auto& each) { return each.second.cursor().waits(); });
}

std::uint64_t RecordStreams::unsubmitted() const {
  std::uint64_t sum = 0;
  for (const auto& [source, ring] : state_->rings) sum += ring.cursor().unsubmitted();
  return sum;
}

std::optional<SentRecord> RecordStreams::decode(std::size_t map, Bytes sent) const {
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
    sum += source->event.read_format != 0 ? read_lost_count(all.get()) : source->lost.load();
  return sum;
}

} // namespace uprobectl::bpf
