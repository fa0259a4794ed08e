// SPDX-License-Identifier: Apache-2.0
#include "dwarf/function_map.hpp"

#include "dwarf/attributes.hpp"

namespace uprobectl::dwarf {

namespace {

bool is_in_removed(Context& context, llvm::DWARFDie die) {
  while (die && !die.isSubprogramDIE()) die = die.getParent();
  return die && !context.is_live(die);
}

} // namespace

// Entries are in preorder: a function precedes what is inlined into it.
FunctionMap::FunctionMap(Context& context, llvm::DWARFUnit& unit) {
  RangeReader reader(context);
  bool has_removed = false;
  for (const llvm::DWARFDebugInfoEntry& entry : unit.dies()) {
    const llvm::DWARFDie die(&unit, &entry);
    if (!die.isSubroutineDIE()) continue;
    // A function that is inlined into removed code may have ranges that overlap the code that is
    // left.
    if (has_removed && !die.isSubprogramDIE() && is_in_removed(context, die)) continue;
    const llvm::DWARFAddressRangesVector ranges = reader.of(die);
    if (reader.is_full()) return;
    if (ranges.empty() && die.isSubprogramDIE()) without_code_.push_back(die);
    has_removed = has_removed || (ranges.empty() && die.isSubprogramDIE() && !context.is_live(die));
    for (const llvm::DWARFAddressRange& range : ranges)
      if (range.LowPC < range.HighPC) add(range.LowPC, range.HighPC, die);
  }
}

// Splits the range of the caller that this one lies in.
void FunctionMap::add(std::uint64_t begin, std::uint64_t end, const llvm::DWARFDie& function) {
  const auto after = ranges_.upper_bound(begin);
  if (after != ranges_.begin()) {
    const auto around = std::prev(after);
    Range& caller = around->second;
    if (begin < caller.end) {
      if (end < caller.end) ranges_[end] = caller;
      if (begin > around->first) caller.end = begin;
    }
  }
  ranges_[begin] = {end, function};
}

llvm::DWARFDie FunctionMap::without_code(Context& context, std::string_view symbol) {
  using namespace llvm::dwarf;
  if (!definitions_) {
    definitions_.emplace();
    for (const llvm::DWARFDie& die : without_code_) {
      if (is_set(die, DW_AT_declaration) || die.find(DW_AT_abstract_origin)) continue;
      const auto name = context.linkage_name(die);
      if (!name) continue;
      const auto [found, is_new] = definitions_->try_emplace(*name, die);
      if (!is_new) found->second = {};
    }
  }
  const auto found = definitions_->find(symbol);
  return found == definitions_->end() ? llvm::DWARFDie() : found->second;
}

llvm::DWARFDie FunctionMap::innermost_at(VirtualAddress address) const {
  const auto after = ranges_.upper_bound(address.value);
  if (after == ranges_.begin()) return {};
  const Range& range = std::prev(after)->second;
  return address.value < range.end ? range.function : llvm::DWARFDie();
}

} // namespace uprobectl::dwarf
