// SPDX-License-Identifier: Apache-2.0
// Tells a file from another one that has its path and its inode number: file systems give the
// number of a deleted file to the next one.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace uprobectl {

// Differs between two states of a file if it was written to, or was deleted and made anew. Two
// files that are made within one tick of the kernel's clock may be equal. Times are in nanoseconds
// since 1970.
struct FileVersion {
  std::uint64_t size = 0; // bytes
  std::int64_t modified_ns = 0;
  std::int64_t created_ns = 0; // 0: the file system does not record it
  auto operator<=>(const FileVersion&) const = default;
};

// Return nullopt if the file cannot be read.
std::optional<FileVersion> read_file_version(int fd);
std::optional<FileVersion> read_file_version(const std::string& path);

// Whether the file was made, or written to, after this time of CLOCK_MONOTONIC, in nanoseconds.
// False if that is not known.
bool was_created_after(const FileVersion& version, std::uint64_t time_ns);
bool was_modified_after(const FileVersion& version, std::uint64_t time_ns);

} // namespace uprobectl
