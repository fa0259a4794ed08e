#include "bpf/pinned.hpp"

#include "bpf/permission.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <fmt/format.h>
#include <linux/bpf.h>

namespace uprobectl {

namespace {

MapUse use_of(std::uint32_t type) {
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
  default:
    return MapUse::other;
  }
}

// The kernel lays the values of CPUs out on multiples of eight bytes.
std::size_t cpu_stride(std::uint32_t value_size) { return (std::size_t{value_size} + 7) / 8 * 8; }

TableEntry entry_of(const std::vector<std::byte>& key, const std::vector<std::byte>& memory,
                    const UserMap& map, std::size_t cpus) {
  TableEntry entry{.key = key, .values = {}};
  for (std::size_t cpu = 0; cpu < cpus; ++cpu) {
    const auto begin =
        memory.begin() + static_cast<std::ptrdiff_t>(cpu * cpu_stride(map.value_size));
    entry.values.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(map.value_size));
  }
  return entry;
}

} // namespace

Result<UserMap> describe_map(UniqueFd fd) {
  bpf_map_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0)
    return fail(bpf_load_error(errno, "cannot ask about a BPF map"));
  return UserMap{.fd = std::move(fd),
                 .name = std::string(info.name, ::strnlen(info.name, sizeof(info.name))),
                 .pin = {},
                 .id = info.id,
                 .use = use_of(info.type),
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

Result<std::vector<UserMap>> maps_of_program(int program) {
  bpf_prog_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(program, &info, &size) != 0)
    return fail(bpf_load_error(errno, "cannot ask about a BPF program"));
  std::vector<std::uint32_t> ids(info.nr_map_ids);
  info = {};
  info.nr_map_ids = static_cast<std::uint32_t>(ids.size());
  info.map_ids = reinterpret_cast<std::uintptr_t>(ids.data());
  size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(program, &info, &size) != 0)
    return fail(bpf_load_error(errno, "cannot ask about a BPF program"));
  std::vector<UserMap> maps;
  for (const std::uint32_t id : ids) {
    UniqueFd fd{::bpf_map_get_fd_by_id(id)};
    if (!fd && errno == EPERM)
      return fail(Error{ErrorKind::not_permitted,
                        "the kernel does not tell this user the maps of the program"}
                      .hint("needs CAP_SYS_ADMIN; or name pinned maps: --map /sys/fs/bpf/…"));
    if (!fd) return fail(system_error(errno, "cannot open a map of the program"));
    auto map = describe_map(std::move(fd));
    if (!map) return fail(std::move(map).error());
    maps.push_back(std::move(*map));
  }
  return maps;
}

Result<Table> read_table(const UserMap& map, std::size_t most) {
  const Result<std::size_t> known = map.use == MapUse::per_cpu ? possible_cpus() : 1;
  if (!known) return fail(known.error());
  const std::size_t cpus = *known;
  std::vector<std::byte> memory(cpu_stride(map.value_size) * cpus);
  std::vector<std::byte> key(map.key_size);
  std::vector<std::byte> next(map.key_size);
  Table table;
  const void* from = nullptr;
  while (::bpf_map_get_next_key(map.fd.get(), from, next.data()) == 0) {
    if (table.entries.size() == most) {
      table.cut = true;
      return table;
    }
    key = next;
    from = key.data();
    if (::bpf_map_lookup_elem(map.fd.get(), key.data(), memory.data()) == 0)
      table.entries.push_back(entry_of(key, memory, map, cpus));
    else if (errno != ENOENT) // else it has been deleted in between
      return fail(system_error(errno, "map '" + map.name + "' cannot be read"));
  }
  if (errno != ENOENT) return fail(system_error(errno, "map '" + map.name + "' cannot be read"));
  return table;
}

} // namespace uprobectl
