#include "resolve/loader_cache.hpp"

#include "uprobectl/arch.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

constexpr std::string_view new_magic = "glibc-ld.so.cache1.1";
constexpr std::string_view old_magic = "ld.so-1.7.0";
constexpr std::uint64_t old_header_size = 16; // magic, padding, nlibs
constexpr std::uint64_t old_entry_size = 12;
constexpr std::uint64_t new_header_size = 48; // up to and without libs[]
constexpr std::uint64_t new_entry_size = 24;  // flags, key, value, osversion, hwcap

// No path is longer than PATH_MAX; the limit keeps hostile caches from costing quadratic time.
constexpr std::uint64_t longest_text = 4096;

std::optional<std::string_view> text_at(Bytes table, std::uint64_t offset) {
  if (offset >= table.size()) return std::nullopt;
  const std::uint64_t size = std::min<std::uint64_t>(longest_text, table.size() - offset);
  return c_string_at(table.subspan(offset, size), 0);
}

bool begins_with(Bytes bytes, std::string_view magic) {
  const auto start = slice(bytes, 0, magic.size());
  return start && as_text(*start) == magic;
}

// The new table; its string offsets count from its own start.
std::optional<Bytes> find_new_table(Bytes cache) {
  if (begins_with(cache, new_magic)) return cache;
  if (!begins_with(cache, old_magic)) return std::nullopt;
  const auto count = read_at<std::uint32_t>(cache, 12);
  if (!count) return std::nullopt;
  const std::uint64_t end = old_header_size + *count * old_entry_size;
  const std::uint64_t aligned = (end + 7) & ~std::uint64_t{7};
  if (aligned > cache.size()) return std::nullopt;
  const Bytes rest = cache.subspan(aligned);
  return begins_with(rest, new_magic) ? std::optional(rest) : std::nullopt;
}

} // namespace

std::uint32_t host_loader_flags() { return host_arch_info().loader_flags; }

Result<void> for_each_cached_library(Bytes cache,
                                     const std::function<void(const LoaderCacheEntry&)>& visit) {
  const auto table = find_new_table(cache);
  if (!table) return fail(ErrorKind::not_found, "no loader cache of a known format");
  const auto count = read_at<std::uint32_t>(*table, new_magic.size());
  if (!count) return fail(ErrorKind::corrupt, "the loader cache is cut off in its header");
  const auto entries = slice(*table, new_header_size, *count * new_entry_size);
  if (!entries)
    return fail(ErrorKind::corrupt, "the loader cache announces " + std::to_string(*count) +
                                        " libraries but is too small for them");
  for (std::uint64_t at = 0; at < entries->size(); at += new_entry_size) {
    const auto flags = read_at<std::uint32_t>(*entries, at);
    const auto key = read_at<std::uint32_t>(*entries, at + 4);
    const auto value = read_at<std::uint32_t>(*entries, at + 8);
    if (!flags || !key || !value) break;
    const auto name = text_at(*table, *key);
    const auto path = text_at(*table, *value);
    if (name && path) visit({*name, *path, *flags});
  }
  return {};
}

} // namespace uprobectl
