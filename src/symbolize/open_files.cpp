// SPDX-License-Identifier: Apache-2.0
#include "symbolize/open_files.hpp"

#include "util/descriptor_io.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace uprobectl::symbolize {

std::vector<std::size_t> choose_files_to_close(std::span<const OpenFile> files,
                                               const OpenFileLimits& limits) {
  std::vector<std::size_t> order(files.size()); // what is kept first
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const auto rank = [&](const OpenFile& file) {
      return std::tuple(!file.is_mapped, file.is_deleted, ~file.last_use);
    };
    return rank(files[a]) < rank(files[b]);
  });
  std::vector<std::size_t> closed;
  std::size_t kept = 0;
  std::size_t unmapped = 0;
  std::uint64_t unmapped_bytes = 0;
  std::size_t deleted = 0;
  for (const std::size_t index : order) {
    const OpenFile& file = files[index];
    const bool is_kept = kept < limits.files &&
                         (file.is_mapped || (unmapped < limits.unmapped &&
                                             file.size <= limits.unmapped_bytes - unmapped_bytes &&
                                             (!file.is_deleted || deleted < limits.deleted)));
    if (!is_kept) {
      closed.push_back(index);
      continue;
    }
    ++kept;
    if (file.is_mapped) continue;
    ++unmapped;
    unmapped_bytes += file.size;
    if (file.is_deleted) ++deleted;
  }
  return closed;
}

bool are_descriptors_used_up() {
  return !check_free_descriptors(4); // to open a file takes several
}

} // namespace uprobectl::symbolize
