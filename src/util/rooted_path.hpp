// SPDX-License-Identifier: Apache-2.0
// Paths below the root folder of another process or below a sysroot. Symbolic links are followed as
// if that folder were "/": they never lead out of it.
#pragma once

#include "uprobectl/util.hpp"

#include <sys/stat.h>
#include <vector>

namespace uprobectl {

// A path below a root folder, for example "/proc/4711/root" and "/usr/lib/x".
struct RootedPath {
  std::string root;
  std::string path; // begins with '/'
};

// Splits a path below /proc/PID/root. Returns nullopt for all other paths.
std::optional<RootedPath> split_process_root(std::string_view path);
// Whether the path is that of a mapping: /proc/PID/map_files/START-END. It opens the mapped file,
// also if that has no other path by now.
inline bool is_mapping_link(std::string_view path) {
  return path.starts_with("/proc/") && path.contains("/map_files/");
}

// The next five functions follow a path below "/proc/PID/root" inside that root: with openat2(2)
// and RESOLVE_IN_ROOT, before Linux 5.6 component by component. They follow other paths as usual.
// Inside a root they do not follow magic links of /proc, such as /proc/PID/fd/N.

// Opens with O_PATH, which neither blocks on a FIFO nor opens a device.
Result<UniqueFd> open_path(const std::string& path);
// Calls stat(2). Returns the errno value if it fails.
std::expected<struct stat, int> stat_path(const std::string& path);
bool is_regular_file(const std::string& path);
bool is_folder(const std::string& path);
struct RegularFile {
  UniqueFd fd;
  struct stat status;
};
// Opens for reading. Never opens a file that is not regular.
Result<RegularFile> open_regular_file(const std::string& path);

// A file found by walk_in_root.
struct RootedFile {
  UniqueFd file;    // O_PATH
  std::string path; // below the root, without symbolic links
};
// Follows the path component by component below the open folder `root` (Linux 2.6.39). Returns an
// errno value if it fails; EXDEV for a magic link of /proc.
std::expected<RootedFile, int> walk_in_root(int root, std::string_view path);

// Resolves the symbolic links of the path. The result is below the root, too.
Result<std::string> real_path_in_root(const RootedPath& rooted);

// Returns the names in a folder, sorted. Empty if the folder cannot be read.
std::vector<std::string> list_folder(const std::string& folder);

// Returns the text of a symbolic link. nullopt and errno on failure.
std::optional<std::string> read_link(const std::string& path);

// Returns the path of an open file in its own mount namespace, as /proc/PID/maps shows it. In our
// mount namespace this path may refer to another file. not_found if /proc is not mounted.
Result<std::string> read_descriptor_path(int fd);

// Returns the host's path of `path` in the sysroot `root`. `path` is absolute and may be
// ARCHIVE!/ENTRY. Absolute symbolic links of the sysroot, such as "/system/product" to "/product",
// are followed below it. not_found if the file does not exist.
Result<std::string> find_in_root(const std::string& root, const std::string& path);

} // namespace uprobectl
