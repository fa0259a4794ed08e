// SPDX-License-Identifier: Apache-2.0
#include "symbolize/mapping_kind.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::symbolize {

namespace {

// MAP_ANONYMOUS with MAP_HUGETLB (Linux fs/hugetlbfs/inode.c, hugetlb_file_setup): "/anon_hugepage
// (deleted)".
bool is_of_huge_pages(const Mapping& mapping) {
  return mapping.deleted && mapping.path == "/anon_hugepage";
}

} // namespace

bool is_of_no_file(const Mapping& mapping) {
  const std::string_view path = mapping.path;
  return path.empty() || path.starts_with("//") || (path.starts_with('[') && path != "[vdso]") ||
         is_of_huge_pages(mapping);
}

bool is_like_memory(const Mapping& mapping) {
  constexpr std::string_view begins[] = {"/memfd:", "/dev/", "/SYSV", "anon_inode:"};
  return std::ranges::any_of(
      begins, [&](std::string_view begin) { return mapping.path.starts_with(begin); });
}

std::string name_of_memory(const Mapping& mapping) {
  const bool is_named =
      !mapping.path.empty() && !mapping.path.starts_with("//") && !is_of_huge_pages(mapping);
  return is_named ? mapping.path : fmt::format("[anon {:#x}]", mapping.start);
}

} // namespace uprobectl::symbolize
