// SPDX-License-Identifier: Apache-2.0
// Finds the installed file that a bare name means: a library as the dynamic loader finds it, a
// program as the shell does. Compares names and inodes, and reads no more of a file than its magic.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>

namespace uprobectl {

// Whether the file can be read and begins with the ELF magic.
bool is_elf_file(const std::string& path);

// The names in a folder, sorted, because readdir has no order. Empty if it cannot be read.
std::vector<std::string> list_folder(const std::string& folder);

// Whether an entry of an archive is a library: "*.so" or "*.so.1".
bool is_library_name(std::string_view name);

// Whether the file name is "libfoo.so" for the stem "libfoo.so", or the stem and a version.
bool is_version_of(std::string_view file, std::string_view stem);

// Whether a user who types `name` can mean the file (a name without folders): its exact name, or
// "foo" for libfoo.so and libfoo.so.1.
bool can_mean_library(std::string_view file, std::string_view name);

// A warning if the file is an archive with two entries of one name, which Android refuses to open.
std::optional<std::string> duplicate_warning(const MappedFile& file, const std::string& subject);

struct Candidate {
  std::string path;
  FileIdentity identity;
};

// Where names are looked up. A value, so that tests can use folders of their own.
struct SearchPaths {
  std::string loader_cache;              // a file; may be missing
  std::vector<std::string> library_dirs; // in the loader's order
  std::vector<std::string> program_dirs; // PATH
};
SearchPaths host_search_paths();

// The files that a bare name (without a slash) can mean, each inode once: if it contains ".so", a
// library of that name; else a program; else a library lib<NAME>.so*. Empty if there is none.
std::vector<Candidate> locate(std::string_view name, const SearchPaths& places);

// What a shell runs instead of the located program: a file in an earlier folder of PATH that is not
// ELF, usually a script.
std::optional<std::string> find_shadowing_script(const Candidate& program, std::string_view name,
                                                 const SearchPaths& places);

// The installed libraries (if the name contains ".so") or programs with the most similar names.
std::vector<std::string> nearest_installed(std::string_view name, const SearchPaths& places);

// The files in the folder of a missing path whose names are most similar, as paths with the same
// folder in front.
std::vector<std::string> nearest_files(const std::string& missing_path);

// An entry of /etc/ld.so.cache, by which the dynamic loader finds a library. Format: glibc
// sysdeps/generic/dl-cache.h, struct cache_file_new ("glibc-ld.so.cache1.1"), alone or behind the
// older "ld.so-1.7.0" table, little-endian. A cache that only has the old table (before glibc 2.2)
// is not supported.
struct LoaderCacheEntry {
  std::string_view name;   // "libc.so.6"
  std::string_view path;   // "/lib/x86_64-linux-gnu/libc.so.6"
  std::uint32_t flags = 0; // FLAG_ELF_LIBC6 and the machine's bits
};

// Calls visit for every entry in the file's order, except those that point outside the bytes.
// not_found if the magic is missing, corrupt if the entries do not fit in the bytes.
Result<void> for_each_cached_library(Bytes cache,
                                     const std::function<void(const LoaderCacheEntry&)>& visit);

} // namespace uprobectl
