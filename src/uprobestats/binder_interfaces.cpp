// SPDX-License-Identifier: Apache-2.0
#include "uprobestats/binder_interfaces.hpp"

#include "bpf/map_entries.hpp"
#include "uprobestats/task_records.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace uprobectl::uprobestats {

namespace {

// BinderInterfaceBpfMapKey: the name, then NULs.
std::vector<std::byte> key_of(const BinderFilter& filter) {
  std::vector<std::byte> key(max_interface_name + 1);
  const std::size_t length = std::min(filter.interface_name.size(), max_interface_name);
  std::memcpy(key.data(), filter.interface_name.data(), length);
  return key;
}

// BinderCodesBpfMapValue: the codes, then 0.
std::vector<std::byte> value_of(const BinderFilter& filter) {
  std::vector<std::byte> value(max_interface_codes * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < filter.methods.size(); ++i)
    std::memcpy(value.data() + i * sizeof(std::uint64_t), &filter.methods[i].code,
                sizeof(std::uint64_t));
  return value;
}

} // namespace

Result<BinderInterfaces> BinderInterfaces::add(const std::string& path,
                                               const BinderFilters& filters) {
  for (const BinderFilter& filter : filters)
    if (filter.methods.size() > max_interface_codes)
      return fail(ErrorKind::out_of_range,
                  fmt::format("the probes of all tasks select {} methods of '{}' (the program "
                              "compares at most {})",
                              filter.methods.size(), filter.interface_name, max_interface_codes));
  auto map = bpf::open_pinned_map(path);
  if (!map) return fail(std::move(map).error());
  const std::uint32_t id = map->id;
  BinderInterfaces added(std::move(*map));
  for (const BinderFilter& filter : filters) {
    const auto key = key_of(filter);
    const auto value = value_of(filter);
    auto inserted = insert_entry(added.map_, key, value, false);
    if (inserted && *inserted == bpf::MapInsert::exists) {
      const auto holders = find_map_holders(id);
      if (!holders.empty())
        return fail(Error{ErrorKind::unsupported, fmt::format("{}: '{}' is selected by another run",
                                                              path, filter.interface_name)}
                        .hint(fmt::format("process {} has the map open", holders.front())));
      added.replaced_.push_back(filter.interface_name);
      inserted = insert_entry(added.map_, key, value, true);
    }
    if (!inserted) return fail(std::move(inserted).error().within(path));
    added.keys_.push_back(key);
  }
  return added;
}

BinderInterfaces::~BinderInterfaces() {
  for (const auto& key : keys_) (void)remove_entry(map_, key);
}

} // namespace uprobectl::uprobestats
