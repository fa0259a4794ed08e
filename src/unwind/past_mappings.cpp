// SPDX-License-Identifier: Apache-2.0
#include "unwind/past_mappings.hpp"

#include "uprobectl/path.hpp"

#include <algorithm>

namespace uprobectl::unwind {

namespace {

Mapping part_of(const Mapping& mapping, std::uint64_t start, std::uint64_t end) {
  Mapping part = mapping;
  part.start = std::max(mapping.start, start);
  part.end = std::min(mapping.end, end);
  part.offset.value += part.start - mapping.start;
  return part;
}

// Whether both have the same byte of the same file at an address. Records and /proc may differ in
// the folder, which depends on the root folder, and in the inode, for example on overlayfs. The
// inode of a deleted file may be used again.
bool has_same_content(const Mapping& a, const Mapping& b) {
  if (a.identity.inode == 0 || b.identity.inode == 0)
    return a.identity.inode == b.identity.inode; // memory without a file
  if (a.start - a.offset.value != b.start - b.offset.value) return false;
  return file_name_of(a.path) == file_name_of(b.path) ||
         (a.identity == b.identity && !a.deleted && !b.deleted);
}

void for_each_overlapping(std::span<const Mapping> mappings, const Mapping& with, const auto& use) {
  auto at = std::ranges::upper_bound(mappings, with.start, {}, &Mapping::end);
  for (; at != mappings.end() && at->start < with.end; ++at)
    if (at->executable) use(*at);
}

} // namespace

void cut_range(std::vector<Mapping>& mappings, std::uint64_t start, std::uint64_t end) {
  const auto first = std::ranges::upper_bound(mappings, start, {}, &Mapping::end);
  std::vector<Mapping> pieces;
  auto last = first;
  for (; last != mappings.end() && last->start < end; ++last) {
    if (last->start < start) pieces.push_back(part_of(*last, last->start, start));
    if (last->end > end) pieces.push_back(part_of(*last, end, last->end));
  }
  const auto at = mappings.erase(first, last);
  mappings.insert(at, pieces.begin(), pieces.end());
}

void insert_mapping(std::vector<Mapping>& mappings, const Mapping& mapping) {
  cut_range(mappings, mapping.start, mapping.end);
  mappings.insert(std::ranges::upper_bound(mappings, mapping.start, {}, &Mapping::start), mapping);
}

PastMappings find_past_mappings(std::span<const Mapping> before, std::vector<Mapping> now,
                                std::span<const Mapping> later) {
  PastMappings past;
  for (const Mapping& each : later) cut_range(now, each.start, each.end);
  for (const Mapping& each : before)
    if (each.executable)
      for_each_overlapping(now, each, [&](const Mapping& other) {
        if (!has_same_content(each, other))
          past.unclear.push_back(part_of(other, each.start, each.end));
      });
  std::vector<Mapping> known = now; // and what is unclear
  for (const Mapping& each : past.unclear) cut_range(now, each.start, each.end);
  for (const Mapping& each : before) {
    if (!each.executable) continue;
    std::vector<Mapping> rest = {each};
    for_each_overlapping(known, each,
                         [&](const Mapping& other) { cut_range(rest, other.start, other.end); });
    past.gone.insert(past.gone.end(), rest.begin(), rest.end());
  }
  past.mappings = std::move(now);
  for (const Mapping& each : past.gone) insert_mapping(past.mappings, each);
  return past;
}

} // namespace uprobectl::unwind
