// SPDX-License-Identifier: Apache-2.0
#include "symbolize/mapping_kind.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::symbolize {

namespace {

// MAP_ANONYMOUS with MAP_HUGETLB (Linux fs/hugetlbfs/inode.c, hugetlb_file_setup): "/anon_hugepage
// (deleted)".
bool is_huge_page_memory(const Mapping& mapping) {
  return mapping.deleted && mapping.path == "/anon_hugepage";
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

} // namespace uprobectl::symbolize
