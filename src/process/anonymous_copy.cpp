// SPDX-License-Identifier: Apache-2.0
#include "process/anonymous_copy.hpp"

#include "process/proc.hpp"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

namespace uprobectl {

namespace {

// The linker moves the library within the memory that it has reserved, so that the boundary between
// code and data falls on a page of 16 KiB. The library stays aligned to 4 KiB.
constexpr std::uint64_t library_alignment = 4096;
constexpr std::uint64_t max_shift = 16384;

bool is_anonymous(const Mapping& mapping) {
  return mapping.identity.inode == 0 && (mapping.path.empty() || mapping.path.starts_with("[anon"));
}

} // namespace

std::optional<std::uint64_t> find_anonymous_copy(pid_t pid, Bytes start) {
  if (start.empty()) return std::nullopt;
  const auto mappings = read_all_mappings(pid);
  if (!mappings) return std::nullopt;
  const UniqueFd memory{::open(proc_path(pid, "mem").c_str(), O_RDONLY | O_CLOEXEC)};
  if (!memory) return std::nullopt;
  std::vector<std::byte> bytes(start.size());
  for (const Mapping& mapping : *mappings) {
    if (!mapping.executable || !is_anonymous(mapping)) continue;
    const std::uint64_t size = mapping.end - mapping.start;
    for (std::uint64_t shift = 0; shift < max_shift && shift < size; shift += library_alignment) {
      const std::uint64_t address = mapping.start + shift;
      const ssize_t length =
          ::pread(memory.get(), bytes.data(), bytes.size(), static_cast<off_t>(address));
      if (std::cmp_equal(length, bytes.size()) && std::ranges::equal(bytes, start)) return address;
    }
  }
  return std::nullopt;
}

} // namespace uprobectl
