// SPDX-License-Identifier: Apache-2.0
#include "dwarf/entry_walk.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::dwarf {

namespace {

// Work per byte of .debug_info and .debug_abbrev, far above that of any compiler's output.
constexpr std::uint64_t work_per_info_byte = 8;
constexpr std::uint64_t work_per_abbreviation_byte = 4;

} // namespace

EntryWalk::EntryWalk(Context& context, std::string_view wanted)
    : context_(context), wanted_(wanted) {
  context.prefetch({".debug_info", ".debug_str"});
  const llvm::DWARFObject& sections = context.dwarf().getDWARFObj();
  work_left_ = work_per_abbreviation_byte * sections.getAbbrevSection().size();
  sections.forEachInfoSections([&](const llvm::DWARFSection& section) {
    work_left_ += work_per_info_byte * section.Data.size();
  });
}

llvm::DWARFUnit* EntryWalk::open(llvm::DWARFUnit& unit) {
  llvm::DWARFUnit* const entries = is_stopped_ ? nullptr : context_.with_entries(&unit);
  if (entries == nullptr || !opened_.insert(entries).second) return nullptr;
  if (entries == &unit) return entries;
  // The sections of the file do not contain the entries of a split unit.
  const std::uint64_t size = entries->getNextUnitOffset() - entries->getOffset();
  if (size > max_debug_info - std::min(split_size_, max_debug_info)) {
    is_stopped_ = true;
    context_.warn(fmt::format("only {} MiB of split units were searched for {}", split_size_ >> 20U,
                              wanted_));
    return nullptr;
  }
  split_size_ += size;
  work_left_ += work_per_info_byte * size;
  if (const auto* const known = entries->getAbbreviations())
    work_left_ += static_cast<std::uint64_t>(known->end() - known->begin());
  return entries;
}

bool EntryWalk::stop_at_damage() {
  if (is_stopped_) return false;
  is_stopped_ = true;
  context_.warn(fmt::format("not all {} were searched: the debug information is damaged", wanted_));
  return false;
}

bool EntryWalk::take_name(std::string_view name) {
  constexpr std::size_t bytes_per_step = 8;
  return take_work(name.size() / bytes_per_step);
}

} // namespace uprobectl::dwarf
