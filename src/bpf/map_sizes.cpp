// SPDX-License-Identifier: Apache-2.0
#include "bpf/map_sizes.hpp"

#include "bpf/load_error.hpp"
#include "bpf/maps.hpp"

#include <algorithm>
#include <array>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <limits>
#include <linux/bpf.h>

namespace uprobectl::bpf {

namespace {

// Maps of these types have no size, or libbpf chooses it: sizes of storages of sockets, inodes,
// tasks and control groups are 0 (Linux kernel/bpf/bpf_local_storage.c), and a perf event array has
// one entry for each CPU.
bool needs_size(std::uint32_t type) {
  constexpr std::uint32_t cgrp_storage = 32; // Linux 6.2
  constexpr std::array without = {std::uint32_t{BPF_MAP_TYPE_PERF_EVENT_ARRAY},
                                  std::uint32_t{BPF_MAP_TYPE_CGROUP_STORAGE},
                                  std::uint32_t{BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE},
                                  std::uint32_t{BPF_MAP_TYPE_SK_STORAGE},
                                  std::uint32_t{BPF_MAP_TYPE_INODE_STORAGE},
                                  std::uint32_t{BPF_MAP_TYPE_TASK_STORAGE},
                                  std::uint32_t{BPF_MAP_TYPE_STRUCT_OPS},
                                  cgrp_storage};
  return std::ranges::find(without, type) == without.end();
}

// The kernel memory that a map without its inner maps takes when it is made, about; what grows with
// its entries is not counted. The largest number if it does not fit.
std::uint64_t estimate_own_memory(const bpf_map* map) {
  const std::uint32_t type = bpf_map__type(map);
  const std::uint64_t entries = bpf_map__max_entries(map);
  constexpr std::uint32_t user_ring_buffer = 31; // Linux 6.1
  if (type == BPF_MAP_TYPE_RINGBUF || type == user_ring_buffer) return entries;
  if (type == BPF_MAP_TYPE_LPM_TRIE) return 0;
  constexpr std::uint64_t list_head = 16; // bytes, of the entries with one hash value
  if ((bpf_map__map_flags(map) & BPF_F_NO_PREALLOC) != 0) return entries * list_head;
  const std::uint64_t copies =
      map_use_for_type(type) == MapUse::per_cpu ? possible_cpus().value_or(1) : 1;
  const std::uint64_t each =
      cpu_stride(bpf_map__key_size(map)) + cpu_stride(bpf_map__value_size(map)) * copies;
  return checked_mul(entries, each).value_or(std::numeric_limits<std::uint64_t>::max());
}

// 0 for a map that is not made, because it is that of another object or was pinned before.
std::uint64_t estimate_memory(bpf_map* map) {
  if (!bpf_map__autocreate(map) || bpf_map__fd(map) >= 0 || bpf_map__pin_path(map) != nullptr)
    return 0;
  const bpf_map* const inner = bpf_map__inner_map(map);
  return checked_add(estimate_own_memory(map), inner == nullptr ? 0 : estimate_own_memory(inner))
      .value_or(std::numeric_limits<std::uint64_t>::max());
}

// Maps that take more, alone or together, are only made if their sizes were requested: the kernel
// would take the memory from the programs of the machine.
constexpr std::uint64_t max_map_memory = std::uint64_t{1} << 30;

// The size of a map whose object leaves it to its loader: 10,240 entries, as in the tools of bcc,
// and 256 KiB of a ring buffer.
constexpr std::uint32_t default_entries = 10240;
constexpr std::uint32_t default_ring_size = 256U << 10;

} // namespace

void complete_map(bpf_map* map) {
  const std::uint32_t type = bpf_map__type(map);
  if (type == BPF_MAP_TYPE_PERF_EVENT_ARRAY) {
    if (bpf_map__key_size(map) == 0) bpf_map__set_key_size(map, sizeof(std::uint32_t));
    if (bpf_map__value_size(map) == 0) bpf_map__set_value_size(map, sizeof(std::uint32_t));
  }
  // The default of kernel.perf_event_max_stack, the kernel's limit, as bcc's tools set it.
  constexpr std::uint32_t max_frames = 127;
  if (type == BPF_MAP_TYPE_STACK_TRACE && bpf_map__value_size(map) == 0)
    bpf_map__set_value_size(map, max_frames * sizeof(std::uint64_t));
}

std::optional<std::uint32_t> choose_map_size(const bpf_map* map) {
  const std::uint32_t type = bpf_map__type(map);
  if (!bpf_map__autocreate(map) || !needs_size(type) || bpf_map__max_entries(map) != 0)
    return std::nullopt;
  return type == BPF_MAP_TYPE_RINGBUF ? default_ring_size : default_entries;
}

Result<void> check_map_memory(std::span<bpf_map* const> maps, const std::string& path) {
  std::uint64_t sum = 0;
  std::uint64_t most = 0;
  const bpf_map* largest = nullptr;
  for (bpf_map* const map : maps) {
    const std::uint64_t memory = estimate_memory(map);
    sum = checked_add(sum, memory).value_or(std::numeric_limits<std::uint64_t>::max());
    if (memory <= most) continue;
    most = memory;
    largest = map;
  }
  if (sum <= max_map_memory) return {};
  const std::string name = bpf_map__name(largest);
  Error error{ErrorKind::unsupported,
              most > max_map_memory
                  ? fmt::format("{}: map '{}' would take {} MiB of the kernel's memory", path, name,
                                most >> 20U)
                  : fmt::format("{}: the maps would take {} MiB of the kernel's memory, '{}' {} "
                                "MiB of it",
                                path, sum >> 20U, name, most >> 20U)};
  if (bpf_map__is_internal(largest)) return fail(std::move(error));
  return fail(std::move(error).hint(fmt::format("request a size: --map-entries {}=N", name)));
}

} // namespace uprobectl::bpf
