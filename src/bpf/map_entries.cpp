// SPDX-License-Identifier: Apache-2.0
#include "bpf/map_entries.hpp"

#include <algorithm>
#include <bpf/bpf.h>
#include <cerrno>
#include <fmt/format.h>
#include <linux/bpf.h>

namespace uprobectl::bpf {

Result<MapInsert> insert_entry(const UserMap& map, Bytes key, Bytes value, bool replace) {
  if (map.use != MapUse::table || key.size() != map.key_size || value.size() != map.value_size)
    return fail(ErrorKind::unsupported,
                fmt::format("map '{}' has keys of {} bytes and values of {} (expected {} and {})",
                            map.name, map.key_size, map.value_size, key.size(), value.size()));
  if (::bpf_map_update_elem(map.fd->get(), key.data(), value.data(),
                            replace ? BPF_ANY : BPF_NOEXIST) == 0)
    return MapInsert::added;
  if (errno == EEXIST) return MapInsert::exists;
  return fail(system_error(errno, "cannot change map '" + map.name + "'"));
}

Result<void> remove_entry(const UserMap& map, Bytes key) {
  if (key.size() != map.key_size)
    return fail(ErrorKind::unsupported, "map '" + map.name + "' has keys of another size");
  if (::bpf_map_delete_elem(map.fd->get(), key.data()) == 0 || errno == ENOENT) return {};
  return fail(system_error(errno, "cannot change map '" + map.name + "'"));
}

namespace {

// Returns false if the kernel cannot do this.
bool visit_batches(int map, std::size_t key_size, std::size_t value_size,
                   const std::function<bool(Bytes key, Bytes value)>& visit) {
  constexpr std::size_t batch_bytes = 4U << 20;
  constexpr std::uint32_t most_entries = 1U << 20; // in one bucket
  auto batch = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(batch_bytes / (key_size + value_size), 64, 4096));
  std::vector<std::byte> keys;
  std::vector<std::byte> values;
  std::uint32_t bucket = 0; // where the next batch begins
  for (bool is_first = true;;) {
    keys.resize(batch * key_size);
    values.resize(batch * value_size);
    std::uint32_t count = batch;
    const int error = ::bpf_map_lookup_batch(map, is_first ? nullptr : &bucket, &bucket,
                                             keys.data(), values.data(), &count, nullptr);
    if (error == -ENOSPC && batch < most_entries) { // the bucket has more
      batch *= 2;
      continue;
    }
    if (error != 0 && error != -ENOENT) return !is_first;
    is_first = false;
    for (std::size_t i = 0; i < count; ++i)
      if (!visit(Bytes(keys).subspan(i * key_size, key_size),
                 Bytes(values).subspan(i * value_size, value_size)))
        return true;
    if (error == -ENOENT) return true; // these were the last
  }
}

} // namespace

void visit_entries(int map, std::size_t key_size, std::size_t value_size,
                   const std::function<bool(Bytes key, Bytes value)>& visit) {
  if (visit_batches(map, key_size, value_size, visit)) return;
  std::vector<std::byte> key(key_size);
  std::vector<std::byte> value(value_size);
  for (const std::byte* previous = nullptr; ::bpf_map_get_next_key(map, previous, key.data()) == 0;
       previous = key.data())
    if (::bpf_map_lookup_elem(map, key.data(), value.data()) == 0 && !visit(key, value)) return;
}

} // namespace uprobectl::bpf
