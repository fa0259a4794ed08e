// SPDX-License-Identifier: Apache-2.0
#include "bpf/pin_list.hpp"

#include "bpf/load_error.hpp"
#include "util/descriptor_io.hpp"

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <tuple>

namespace uprobectl::bpf {

namespace {

constexpr std::size_t max_name = 256; // with the NUL at its end
using ListedName = std::array<char, max_name>;

// A value of the list, whose keys are names. 256 bytes are the longest file name (NAME_MAX).
struct ListedValue {
  std::uint32_t flags = 0;
  std::uint32_t object = 0;
  std::uint32_t id = 0;
  ListedName name{};
};
static_assert(sizeof(ListedValue) == 268);

constexpr std::size_t max_listed = 4096;

// The file is cut into values of this size: before Linux 5.16 the kernel copies a value to memory
// that must be contiguous. The first eight bytes are the size of the file.
constexpr std::size_t chunk_size = 32U << 10;
constexpr std::size_t max_kept = 64U << 20;
using KeptSize = std::uint64_t;

std::optional<ListedName> to_listed_name(std::string_view text) {
  ListedName name{};
  if (text.size() >= name.size()) return std::nullopt;
  std::ranges::copy(text, name.begin());
  return name;
}

std::string to_text(const ListedName& name) {
  return {name.data(), ::strnlen(name.data(), max_name)};
}

Result<bpf_map_info> query_map(int map, const std::string& path) {
  bpf_map_info info{};
  std::uint32_t size = sizeof(info);
  if (::bpf_obj_get_info_by_fd(map, &info, &size) != 0) return fail(system_error(errno, path));
  return info;
}

} // namespace

std::string kept_object_pin(std::uint32_t object) {
  return fmt::format("uprobectl_object_{}", object);
}

std::string without_end_slashes(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Error pin_error(int errnum, const std::string& path) {
  if (errnum == EACCES)
    return Error{ErrorKind::not_permitted, path + ": this user may not use the pin"}.hint(
        "check its mode and owner: ls -l " + path);
  if (errnum == EPERM) return bpf_load_error(errnum, path);
  if (errnum == EINVAL)
    return {ErrorKind::unsupported, path + ": not a pin, because it is not in a bpf file system"};
  return system_error(errnum, path);
}

Result<UniqueFd> make_pin_list(std::span<const ListedPin> pins) {
  if (pins.size() > max_listed)
    return fail(
        ErrorKind::unsupported,
        fmt::format("{} pins are too many for one folder (at most {})", pins.size(), max_listed));
  UniqueFd list{::bpf_map_create(
      BPF_MAP_TYPE_HASH, std::string(pin_list_name).c_str(), max_name, sizeof(ListedValue),
      static_cast<std::uint32_t>(std::max<std::size_t>(pins.size(), 1)), nullptr)};
  if (!list) return fail(bpf_load_error(errno, "cannot create a BPF map"));
  for (const ListedPin& pin : pins) {
    const auto key = to_listed_name(pin.pin);
    const auto name = to_listed_name(pin.name);
    if (!key || !name)
      return fail(ErrorKind::unsupported, fmt::format("{}: the name is longer than {} bytes",
                                                      key ? pin.name : pin.pin, max_name - 1));
    const ListedValue value{.flags = pin.flags, .object = pin.object, .id = pin.id, .name = *name};
    if (::bpf_map_update_elem(list.get(), key->data(), &value, BPF_NOEXIST) != 0)
      return errno == EEXIST
                 ? fail(ErrorKind::duplicated,
                        fmt::format("two programs or maps would be pinned as '{}'", pin.pin))
                 : fail(bpf_load_error(errno, "cannot write the list of pins"));
  }
  return list;
}

Result<UniqueFd> open_pin_list(const std::string& folder) {
  const std::string path = folder + "/" + std::string(pin_list_name);
  LIBBPF_OPTS(bpf_obj_get_opts, options, .file_flags = BPF_F_RDONLY);
  UniqueFd list{::bpf_obj_get_opts(path.c_str(), &options)};
  if (!list && (errno == ENOENT || errno == ENOTDIR)) return list;
  if (!list) return fail(pin_error(errno, path));
  const auto info = query_map(list.get(), path);
  if (!info) return fail(info.error());
  if (info->type != BPF_MAP_TYPE_HASH || info->key_size != max_name ||
      info->value_size != sizeof(ListedValue))
    return fail(Error{ErrorKind::corrupt, path + ": not the list that uprobectl load makes"}.hint(
        "remove the folder, which another version may have made: rm -r " + folder));
  return list;
}

std::vector<ListedPin> read_pin_list(int list) {
  std::vector<ListedPin> pins;
  ListedName key{};
  ListedName next{};
  const void* from = nullptr;
  while (pins.size() < max_listed && ::bpf_map_get_next_key(list, from, next.data()) == 0) {
    ListedValue value;
    if (::bpf_map_lookup_elem(list, next.data(), &value) == 0)
      pins.push_back({.pin = to_text(next),
                      .flags = value.flags,
                      .object = value.object,
                      .id = value.id,
                      .name = to_text(value.name)});
    key = next;
    from = key.data();
  }
  // The kernel's order is that of hashes.
  std::ranges::sort(pins, {}, [](const ListedPin& pin) { return std::tie(pin.object, pin.pin); });
  return pins;
}

Result<UniqueFd> keep_object(Bytes file) {
  std::vector<std::byte> content(sizeof(KeptSize));
  const KeptSize size = file.size();
  std::memcpy(content.data(), &size, sizeof(size));
  content.insert(content.end(), file.begin(), file.end());
  const std::size_t chunks = (content.size() + chunk_size - 1) / chunk_size;
  content.resize(chunks * chunk_size);
  UniqueFd map{::bpf_map_create(BPF_MAP_TYPE_ARRAY, "uprobectl_file", sizeof(std::uint32_t),
                                chunk_size, static_cast<std::uint32_t>(chunks), nullptr)};
  if (!map) return fail(bpf_load_error(errno, "cannot create a BPF map"));
  for (std::uint32_t i = 0; i < chunks; ++i)
    if (::bpf_map_update_elem(map.get(), &i, content.data() + i * chunk_size, BPF_ANY) != 0)
      return fail(system_error(errno, "cannot keep the object file"));
  // Nobody changes it any more. Linux 5.2; without it, it is checked all the same when it is read.
  ::bpf_map_freeze(map.get());
  return map;
}

std::optional<Bytes> find_kept_file(Bytes content) {
  const auto size = read_at<KeptSize>(content, 0);
  return size ? slice(content, sizeof(KeptSize), *size) : std::nullopt;
}

Result<MappedFile> read_kept_object(int map, const std::string& path) {
  const auto info = query_map(map, path);
  if (!info) return fail(info.error());
  const auto damaged = [&] {
    return fail(ErrorKind::corrupt, path + ": not the object file that uprobectl load keeps");
  };
  if (info->type != BPF_MAP_TYPE_ARRAY || info->value_size != chunk_size ||
      info->max_entries > max_kept / chunk_size + 1)
    return damaged();
  std::vector<std::byte> content(std::size_t{info->max_entries} * chunk_size);
  for (std::uint32_t i = 0; i < info->max_entries; ++i)
    if (::bpf_map_lookup_elem(map, &i, content.data() + i * chunk_size) != 0)
      return fail(system_error(errno, path));
  const auto file = find_kept_file(content);
  if (!file) return damaged();
  UniqueFd copy{::memfd_create("uprobectl object", MFD_CLOEXEC)};
  if (!copy) return fail(system_error(errno, path));
  if (const auto written = write_all(copy.get(), *file); !written)
    return fail(system_error(written.error(), path));
  return MappedFile::of_copy(std::move(copy), path);
}

} // namespace uprobectl::bpf
