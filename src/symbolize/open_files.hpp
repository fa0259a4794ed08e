// SPDX-License-Identifier: Apache-2.0
// Decides which of the files that stacks have passed are closed. An open file keeps a descriptor, a
// mapping, its symbols and unwind tables in memory, and the disk space of a deleted file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace uprobectl::symbolize {

struct OpenFile {
  bool is_mapped = false;  // by a process that runs
  bool is_deleted = false; // it has no name any more
  std::uint64_t last_use = 0;
  std::uint64_t size = 0; // bytes
};

struct OpenFileLimits {
  std::size_t files = 1024;
  // These limit the files that no process maps. `files` counts them, too.
  std::size_t unmapped = 256;
  std::uint64_t unmapped_bytes = std::uint64_t{1} << 30;
  std::size_t deleted = 8;
};

// OpenFileLimits::deleted of stacks that are named at the end of a run.
constexpr std::size_t max_kept_deleted = 128;

// Returns the indexes of the files to close: unmapped ones first, of them deleted ones first, and
// in each class those that were not used for the longest time.
std::vector<std::size_t> choose_files_to_close(std::span<const OpenFile> files,
                                               const OpenFileLimits& limits);

// Whether hardly any further file can be opened, by this program or on this machine.
bool are_descriptors_used_up();

} // namespace uprobectl::symbolize
