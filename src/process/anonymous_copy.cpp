// SPDX-License-Identifier: Apache-2.0
#include "process/anonymous_copy.hpp"

#include "process/proc.hpp"
#include "process/process_memory.hpp"

#include <algorithm>

namespace uprobectl::process {

namespace {

// The linker moves the library within the memory that it has reserved, so that the boundary between
// code and data falls on a page of 16 KiB. The library stays aligned to 4 KiB.
constexpr std::uint64_t library_alignment = 4096;
constexpr std::uint64_t max_shift = 16384;

bool may_hold_library(const Mapping& mapping) {
  return mapping.identity.inode == 0 && (mapping.path.empty() || mapping.path.starts_with("[anon"));
}

} // namespace

std::optional<std::uint64_t> find_anonymous_copy(pid_t pid, Bytes start) {
  if (start.empty()) return std::nullopt;
  const auto mappings = read_all_mappings(pid);
  if (!mappings) return std::nullopt;
  const ProcessMemory memory(pid);
  std::vector<std::byte> bytes(start.size());
  for (const Mapping& mapping : *mappings) {
    if (!mapping.executable || !may_hold_library(mapping)) continue;
    const std::uint64_t size = mapping.end - mapping.start;
    for (std::uint64_t shift = 0; shift < max_shift && shift < size; shift += library_alignment) {
      const std::uint64_t address = mapping.start + shift;
      if (memory.read(address, bytes) && std::ranges::equal(bytes, start)) return address;
    }
  }
  return std::nullopt;
}

} // namespace uprobectl::process
