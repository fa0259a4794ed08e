// SPDX-License-Identifier: Apache-2.0
// Reads all entries of .debug_info one by one. They are not kept: LLVM's own tree of them takes
// several times the size of the section.
#pragma once

#include "dwarf/context.hpp"

#include <limits>
#include <llvm/DebugInfo/DWARF/DWARFDebugAbbrev.h>
#include <set>
#include <unordered_set>

namespace uprobectl::dwarf {

class EntryWalk {
public:
  // `wanted`: what is searched, for warnings ("inlined functions"); a literal.
  EntryWalk(Context& context, std::string_view wanted);

  // Calls `visit(unit, entries)` for each compile unit and the unit with its entries, until it
  // returns false. Units that were visited before are left out. The alternate file is not read.
  template <typename Visit>
  void for_each_unit(Visit visit) {
    for (const auto& unit : context_.dwarf().normal_units()) {
      if (is_stopped_) return;
      if (unit->isTypeUnit() ? !has_type_units_ : only_ && !only_->contains(unit.get())) continue;
      llvm::DWARFUnit* const entries = open(*unit);
      if (entries != nullptr && !visit(*unit, *entries)) return;
    }
  }

  // Lets for_each_unit() visit only these compile units; nullopt: all.
  void keep_only(std::optional<std::set<const llvm::DWARFUnit*>> units) {
    only_ = std::move(units);
  }

  // Lets for_each_unit() visit type units, too, except those of split units.
  void include_type_units() { has_type_units_ = true; }

  // Returns the unit with the entries of a compile unit. Null, with a warning if something is
  // missed, if it was opened before or cannot be read.
  llvm::DWARFUnit* open(llvm::DWARFUnit& unit);

  // Calls `visit(entry, tag, depth)` for each entry, parents first, until it returns false. The
  // entry is valid during the call; the depth of the unit's first entry is 0. Returns false if
  // `visit` did, or if the entries of this unit are damaged.
  template <typename Visit>
  bool for_each_entry(llvm::DWARFUnit& entries, Visit visit) {
    const llvm::DWARFAbbreviationDeclarationSet* const known = entries.getAbbreviations();
    if (known == nullptr) return false;
    // Codes without a gap are an index, others are searched one by one.
    const bool is_indexed = known->getFirstAbbrCode() != std::numeric_limits<std::uint32_t>::max();
    const auto size = static_cast<std::uint64_t>(known->end() - known->begin());
    if (!take_work(size)) return false;
    const llvm::DWARFDataExtractor data = entries.getDebugInfoExtractor();
    const std::uint64_t end = entries.getNextUnitOffset();
    std::uint64_t at = entries.getOffset() + entries.getHeaderSize();
    std::size_t depth = 0;
    while (at < end) {
      llvm::DWARFDebugInfoEntry entry;
      const std::uint64_t begin = at;
      // A malformed abbreviation code is taken for the end of children, and the position stays.
      if (!entry.extractFast(entries, &at, data, end, 0) || at <= begin) return false;
      const auto* const abbreviation = entry.getAbbreviationDeclarationPtr();
      if (abbreviation == nullptr) { // the end of an entry's children
        depth -= depth > 0 ? 1 : 0;
        continue;
      }
      if (!take_work(1 + abbreviation->getNumAttributes() + (is_indexed ? 0 : size))) return false;
      const std::uint16_t tag = abbreviation->getTag();
      if (!visit(Die(&entries, &entry), tag, depth)) return false;
      depth += abbreviation->hasChildren() ? 1 : 0;
    }
    return true;
  }

  // Bounds the work, as damaged debug information may have any number of attributes without bytes
  // in .debug_info. Returns false, with a warning, when there was more than any compiler causes.
  bool take_work(std::uint64_t work) {
    if (work_left_ <= work || is_stopped_) return stop_at_damage();
    work_left_ -= work;
    return true;
  }
  // Bounds the work of comparing a name in the same way: many entries may have the same long one.
  bool take_name(std::string_view name);

private:
  bool stop_at_damage();

  Context& context_;
  std::string_view wanted_;
  std::uint64_t work_left_ = 0;
  std::uint64_t split_size_ = 0; // of the entries of split units, bytes
  bool is_stopped_ = false;
  bool has_type_units_ = false;
  std::optional<std::set<const llvm::DWARFUnit*>> only_;
  std::unordered_set<const llvm::DWARFUnit*> opened_;
};

} // namespace uprobectl::dwarf
