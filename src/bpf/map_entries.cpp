// SPDX-License-Identifier: Apache-2.0
#include "bpf/map_entries.hpp"

#include <bpf/bpf.h>
#include <cerrno>
#include <fmt/format.h>
#include <linux/bpf.h>

namespace uprobectl {

Result<MapInsert> insert_entry(const UserMap& map, Bytes key, Bytes value, bool replace) {
  if (map.use != MapUse::table || key.size() != map.key_size || value.size() != map.value_size)
    return fail(ErrorKind::unsupported,
                fmt::format("map '{}' has keys of {} bytes and values of {} (expected {} and {})",
                            map.name, map.key_size, map.value_size, key.size(), value.size()));
  if (::bpf_map_update_elem(map.fd.get(), key.data(), value.data(),
                            replace ? BPF_ANY : BPF_NOEXIST) == 0)
    return MapInsert::added;
  if (errno == EEXIST) return MapInsert::exists;
  return fail(system_error(errno, "cannot change map '" + map.name + "'"));
}

Result<void> remove_entry(const UserMap& map, Bytes key) {
  if (key.size() != map.key_size)
    return fail(ErrorKind::unsupported, "map '" + map.name + "' has keys of another size");
  if (::bpf_map_delete_elem(map.fd.get(), key.data()) == 0 || errno == ENOENT) return {};
  return fail(system_error(errno, "cannot change map '" + map.name + "'"));
}

} // namespace uprobectl
