// SPDX-License-Identifier: Apache-2.0
// Paths below the root folder of another process, or of an unpacked system image. Symbolic links in
// them lead where they would if that folder were "/", and never out of it.
#pragma once

#include "uprobectl/util.hpp"

#include <sys/stat.h>

namespace uprobectl {

// "/proc/4711/root/usr/lib/x" taken apart: "/proc/4711/root" and "/usr/lib/x".
struct RootedPath {
  std::string root;
  std::string path; // begins with '/'
};

// Nullopt for all other paths.
std::optional<RootedPath> in_process_root(std::string_view path);

// For all three: a path below "/proc/PID/root" is followed inside of that root (openat2(2) with
// RESOLVE_IN_ROOT, before Linux 5.6 one component after the other), any other as usual. Links of
// /proc that lead to open files are not followed inside of a root.

// With O_PATH, which neither waits for a FIFO nor touches a device.
Result<UniqueFd> open_path(const std::string& path);
// stat(2). The errno if it fails.
std::expected<struct stat, int> status_of(const std::string& path);
// For reading. What is not a regular file is never opened.
struct RegularFile {
  UniqueFd fd;
  struct stat status;
};
Result<RegularFile> open_regular_file(const std::string& path);

// A file below a folder that is open, found one component after the other, and its path there
// without symbolic links. Linux 2.6.39.
struct Walked {
  UniqueFd file; // O_PATH
  std::string path;
};
// An errno value if nothing is there, or a link of /proc leads out.
std::expected<Walked, int> walk_in_root(int root, std::string_view path);

// The same path without symbolic links, also below the root.
Result<std::string> real_path_in(const RootedPath& rooted);

// The path of an open file in its own mount namespace, as /proc/PID/maps has it. At that path this
// machine may have another file. Without /proc not_found.
Result<std::string> path_of_descriptor(int fd);

// Where what the image calls `path` (absolute; ARCHIVE!/ENTRY, too) lies below the folder `root`.
// Links of an image are absolute, "/system/product" is one to "/product". not_found if nothing is
// there.
Result<std::string> path_in_root(const std::string& root, const std::string& path);

} // namespace uprobectl
