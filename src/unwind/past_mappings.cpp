// SPDX-License-Identifier: Apache-2.0
#include "unwind/past_mappings.hpp"

#include "uprobectl/path.hpp"

#include <algorithm>

namespace uprobectl::unwind {

namespace {

process::Mapping part_of(const process::Mapping& mapping, std::uint64_t start, std::uint64_t end) {
  process::Mapping part = mapping;
  part.start = std::max(mapping.start, start);
  part.end = std::min(mapping.end, end);
  part.offset.value += part.start - mapping.start;
  return part;
}

// Whether both have the same byte of the same file at an address. Records and /proc may differ in
// the folder, which depends on the root folder, and in the inode, for example on overlayfs. The
// inode of a deleted file may be used again.
bool has_same_content(const process::Mapping& a, const process::Mapping& b) {
  if (a.identity.inode == 0 || b.identity.inode == 0)
    return a.identity.inode == b.identity.inode; // memory without a file
  if (a.start - a.offset.value != b.start - b.offset.value) return false;
  return file_name_of(a.path) == file_name_of(b.path) ||
         (a.identity == b.identity && !a.deleted && !b.deleted);
}

void for_each_overlapping(std::span<const process::Mapping> mappings, const process::Mapping& with,
                          const auto& use) {
  auto at = std::ranges::upper_bound(mappings, with.start, {}, &process::Mapping::end);
  for (; at != mappings.end() && at->start < with.end; ++at)
    if (at->executable) use(*at);
}

} // namespace

void cut_range(std::vector<process::Mapping>& mappings, std::uint64_t start, std::uint64_t end) {
  const auto first = std::ranges::upper_bound(mappings, start, {}, &process::Mapping::end);
  std::vector<process::Mapping> pieces;
  auto last = first;
  for (; last != mappings.end() && last->start < end; ++last) {
    if (last->start < start) pieces.push_back(part_of(*last, last->start, start));
    if (last->end > end) pieces.push_back(part_of(*last, end, last->end));
  }
  const auto at = mappings.erase(first, last);
  mappings.insert(at, pieces.begin(), pieces.end());
}

void insert_mapping(std::vector<process::Mapping>& mappings, const process::Mapping& mapping) {
  cut_range(mappings, mapping.start, mapping.end);
  mappings.insert(std::ranges::upper_bound(mappings, mapping.start, {}, &process::Mapping::start),
                  mapping);
}

PastMappings find_past_mappings(std::span<const process::Mapping> before,
                                std::vector<process::Mapping> now,
                                std::span<const process::Mapping> later) {
  PastMappings past;
  for (const process::Mapping& each : later) cut_range(now, each.start, each.end);
  for (const process::Mapping& each : before)
    if (each.executable)
      for_each_overlapping(now, each, [&](const process::Mapping& other) {
        if (!has_same_content(each, other))
          past.unclear.push_back(part_of(other, each.start, each.end));
      });
  std::vector<process::Mapping> known = now; // and what is unclear
  for (const process::Mapping& each : past.unclear) cut_range(now, each.start, each.end);
  for (const process::Mapping& each : before) {
    if (!each.executable) continue;
    std::vector<process::Mapping> rest = {each};
    for_each_overlapping(known, each, [&](const process::Mapping& other) {
      cut_range(rest, other.start, other.end);
    });
    past.gone.insert(past.gone.end(), rest.begin(), rest.end());
  }
  past.mappings = std::move(now);
  for (const process::Mapping& each : past.gone) insert_mapping(past.mappings, each);
  return past;
}

} // namespace uprobectl::unwind
