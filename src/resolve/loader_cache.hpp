// /etc/ld.so.cache: which file the dynamic loader takes for a library's name. Format: glibc
// sysdeps/generic/dl-cache.h, struct cache_file_new ("glibc-ld.so.cache1.1"), alone or behind the
// older "ld.so-1.7.0" table. Little-endian. Entries that point outside the bytes are left out.
//
// Not supported: caches that hold only the "ld.so-1.7.0" table (before glibc 2.2).
#pragma once

#include "uprobectl/util.hpp"

#include <functional>

namespace uprobectl {

struct LoaderCacheEntry {
  std::string_view name;   // "libc.so.6"
  std::string_view path;   // "/lib/x86_64-linux-gnu/libc.so.6"
  std::uint32_t flags = 0; // FLAG_ELF_LIBC6 and the machine's bits
};

// The flags of libraries that this program's own machine loads (glibc's
// sysdeps/unix/sysv/linux/*/dl-cache.h): 0x0303 x86-64, 0x0a03 arm64, 0x0903 arm hard-float.
std::uint32_t host_loader_flags();

// Calls visit for every entry in the file's order. not_found if the magic is missing, corrupt if
// the entries do not fit in the bytes.
Result<void> for_each_cached_library(Bytes cache,
                                     const std::function<void(const LoaderCacheEntry&)>& visit);

} // namespace uprobectl
