// SPDX-License-Identifier: Apache-2.0
// The loader cache from arbitrary bytes: names and paths lie inside them.
#include "resolve/locate.hpp"

#include <cstdlib>

int fuzz_ld_cache(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl;
  const Bytes cache = std::as_bytes(std::span(data, size));
  const auto inside = [&](std::string_view text) {
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    return begin >= cache.data() && begin + text.size() < cache.data() + cache.size();
  };
  static_cast<void>(
      resolve::for_each_cached_library(cache, [&](const resolve::LoaderCacheEntry& entry) {
        if (!inside(entry.name) || !inside(entry.path)) std::abort();
      }));
  return 0;
}
