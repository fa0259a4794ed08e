// SPDX-License-Identifier: Apache-2.0
// Finds the installed file that a bare name means: a library as the dynamic loader finds it, a
// program as the shell does. Compares names and inodes, and reads no more of a file than its magic.
#pragma once

#include "uprobectl/util.hpp"

#include <functional>

namespace uprobectl::resolve {

// Whether the file can be read and begins with the ELF magic.
bool is_elf_file(const std::string& path);

// Whether a name is that of a library: "*.so" or "*.so.1".
bool is_library_name(std::string_view name);

// Whether the file name is the stem ("libfoo.so") or the stem with a version ("libfoo.so.1").
bool is_version_of(std::string_view file, std::string_view stem);

// Whether `name` selects the file: it is the file's name, or "foo" for libfoo.so and libfoo.so.1.
// Both are without folders.
bool can_mean_library(std::string_view file, std::string_view name);
// Also selects a version of `name`: "libfoo.so" selects libfoo.so.1.
bool can_be_copy(std::string_view file, std::string_view name);

// Returns a warning if the file is an archive with two entries of one name: Android rejects it.
std::optional<std::string> duplicate_warning(const MappedFile& file, const std::string& subject);

// An installed file that a name can mean.
struct Candidate {
  std::string path;
  FileIdentity identity;
};

// Where names are looked up. Tests pass folders of their own.
struct SearchPaths {
  std::string loader_cache;              // a file; may be missing
  std::vector<std::string> library_dirs; // in the loader's order
  std::vector<std::string> program_dirs; // PATH
};
// The search paths of this machine.
SearchPaths host_search_paths();

// Returns the files that a name without a slash can mean, each inode once. A name with ".so" means
// a library; other names mean a program, or if there is none a library lib<NAME>.so*.
std::vector<Candidate> locate(std::string_view name, const SearchPaths& paths);

// Returns the file that a shell runs instead of the program: one in an earlier folder of PATH that
// is not ELF, usually a script.
std::optional<std::string> find_shadowing_script(const Candidate& program, std::string_view name,
                                                 const SearchPaths& paths);

// Returns the names most similar to a missing one, among installed libraries if the name contains
// ".so", else among programs.
std::vector<std::string> nearest_installed(std::string_view name, const SearchPaths& paths);

// Returns the paths in the folder of a missing file that have the most similar names.
std::vector<std::string> nearest_files(const std::string& missing_path);

// An entry of /etc/ld.so.cache, by which the dynamic loader finds a library. Format: glibc
// sysdeps/generic/dl-cache.h, struct cache_file_new ("glibc-ld.so.cache1.1"), alone or after the
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

} // namespace uprobectl::resolve
