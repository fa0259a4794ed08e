// SPDX-License-Identifier: Apache-2.0
#include "process/mapping_kind.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace uprobectl::process {

namespace {

// MAP_ANONYMOUS with MAP_HUGETLB (Linux fs/hugetlbfs/inode.c, hugetlb_file_setup): "/anon_hugepage
// (deleted)".
bool is_huge_page_memory(const Mapping& mapping) {
  return mapping.deleted && mapping.path == "/anon_hugepage";
}

// The maximum number of pieces of a copy that are examined on each side.
constexpr std::size_t max_pieces = 64;

// Whether the memory may hold a copy of code. Of the memory that the kernel names, "[anon:…]" may.
bool may_be_copy(const Mapping& mapping) {
  return is_anonymous(mapping) &&
         (!mapping.path.starts_with('[') || mapping.path.starts_with("[anon"));
}

bool is_piece_of_file(const Mapping& mapping) {
  return mapping.identity.inode != 0 && !mapping.path.empty() && !is_anonymous(mapping) &&
         !is_named_memory(mapping);
}

bool is_of_same_file(const Mapping& a, const Mapping& b) {
  return a.identity == b.identity && a.path == b.path;
}

// Returns the offset in the file of the memory between two pieces of the file, or nullopt if the
// memory does not have the size of what is missing. `gap`: its size. All sizes are modulo 2^64.
//
// A linker may end a segment and begin the next one in the same page of the file. Both are then
// mapped with that page, and the next one lies a page further on (lld; max-page-size).
std::optional<std::uint64_t> offset_between(const Mapping& before, const Mapping& after,
                                            std::uint64_t gap) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = before.offset.value + (before.end - before.start);
  const std::uint64_t missing = after.offset.value - begin;
  const bool shares_one_page = gap == missing + page;
  // Two pieces of executable memory are of one segment.
  if (before.executable)
    return gap == missing || shares_one_page ? std::optional(begin) : std::nullopt;
  if (after.executable)
    return gap == missing || shares_one_page ? std::optional(after.offset.value - gap)
                                             : std::nullopt;
  if (gap == missing) return begin;
  return gap == missing + 2 * page && begin >= page ? std::optional(begin - page) : std::nullopt;
}

} // namespace

bool is_anonymous(const Mapping& mapping) {
  const std::string_view path = mapping.path;
  return path.empty() || path.starts_with("//") || (path.starts_with('[') && path != "[vdso]") ||
         is_huge_page_memory(mapping);
}

bool is_named_memory(const Mapping& mapping) {
  constexpr std::string_view begins[] = {"/memfd:", "/dev/", "/SYSV", "anon_inode:"};
  return std::ranges::any_of(
      begins, [&](std::string_view begin) { return mapping.path.starts_with(begin); });
}

std::string anonymous_name(const Mapping& mapping) {
  const bool is_named =
      !mapping.path.empty() && !mapping.path.starts_with("//") && !is_huge_page_memory(mapping);
  return is_named ? mapping.path : fmt::format("[anon {:#x}]", mapping.start);
}

std::optional<Mapping> find_replaced_code(std::span<const Mapping> mappings, std::size_t number) {
  const Mapping& own = mappings[number];
  if (!own.executable || !may_be_copy(own)) return std::nullopt;
  // The copy may be in several pieces.
  std::size_t first = number;
  while (first > 0 && number - first < max_pieces &&
         mappings[first - 1].end == mappings[first].start && may_be_copy(mappings[first - 1]))
    --first;
  std::size_t last = number;
  while (last + 1 < mappings.size() && last - number < max_pieces &&
         mappings[last].end == mappings[last + 1].start && may_be_copy(mappings[last + 1]))
    ++last;
  if (first == 0 || last + 1 == mappings.size()) return std::nullopt;
  const Mapping& before = mappings[first - 1];
  const Mapping& after = mappings[last + 1];
  if (before.end != mappings[first].start || mappings[last].end != after.start ||
      !is_piece_of_file(before) || !is_of_same_file(before, after))
    return std::nullopt;
  const auto offset = offset_between(before, after, after.start - before.end);
  if (!offset) return std::nullopt;
  Mapping replaced = own;
  replaced.offset = {*offset + (own.start - before.end)};
  replaced.identity = before.identity;
  replaced.path = before.path;
  replaced.deleted = before.deleted;
  return replaced;
}

void restore_replaced_code(std::vector<Mapping>& mappings) {
  std::vector<std::pair<std::size_t, Mapping>> found; // by number
  for (std::size_t i = 0; i < mappings.size(); ++i)
    if (auto replaced = find_replaced_code(mappings, i))
      found.emplace_back(i, std::move(*replaced));
  for (auto& [number, replaced] : found) mappings[number] = std::move(replaced);
}

} // namespace uprobectl::process
