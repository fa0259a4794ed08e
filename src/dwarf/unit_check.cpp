// SPDX-License-Identifier: Apache-2.0
#include "dwarf/unit_check.hpp"

#include "dwarf/dwarf.hpp"
#include "elf/dwarf_cursor.hpp"
#include "elf/sections.hpp"

#include <algorithm>
#include <limits>
#include <llvm/DebugInfo/DWARF/DWARFDebugAbbrev.h>
#include <llvm/DebugInfo/DWARF/DWARFFormValue.h>
#include <llvm/DebugInfo/DWARF/DWARFUnit.h>

namespace uprobectl::dwarf {

using namespace llvm::dwarf;

std::uint64_t abbreviations_size(Bytes table, ByteOrder order) {
  elf::DwarfCursor cursor(table, order);
  while (cursor.unsigned_leb() != 0) {
    cursor.skip_leb(); // tag
    cursor.skip(1);    // whether it has children
    for (bool is_end = false; !is_end && !cursor.failed();) {
      const std::uint64_t attribute = cursor.unsigned_leb();
      const std::uint64_t form = cursor.unsigned_leb();
      if (form == DW_FORM_implicit_const) cursor.skip_leb();
      is_end = attribute == 0 && form == 0;
    }
  }
  return cursor.at();
}

namespace {

// LLVM stops by itself at a code without abbreviation and at an unknown form.
bool are_bounded(const llvm::DWARFUnit& unit, bool only_first) {
  const llvm::DWARFAbbreviationDeclarationSet* const abbreviations = unit.getAbbreviations();
  if (abbreviations == nullptr) return true;
  const llvm::DWARFDataExtractor data = unit.getDebugInfoExtractor();
  const std::uint64_t end = std::min<std::uint64_t>(unit.getNextUnitOffset(), data.size());
  std::uint64_t at = unit.getOffset() + unit.getHeaderSize();
  // Entries of compilers have less than two attributes for each of their bytes.
  constexpr std::uint64_t max_steps = 64; // for a byte
  std::uint64_t steps_left = max_steps * (end - std::min(at, end)) + 4096;
  const bool is_indexed =
      abbreviations->getFirstAbbrCode() != std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t search_steps =
      is_indexed ? 0 : static_cast<std::uint64_t>(abbreviations->end() - abbreviations->begin());
  while (at < end) {
    const std::uint64_t begin = at;
    const auto first = static_cast<std::uint8_t>(data.getData()[at]);
    const bool has_one_byte = first < 0x80; // most codes: LLVM's function takes longer
    const std::uint64_t code = has_one_byte ? first : data.getULEB128(&at);
    at += has_one_byte ? 1 : 0;
    if (at == begin) return true; // malformed: LLVM reads it as the end of children
    if (code == 0) continue;
    const auto* const abbreviation =
        abbreviations->getAbbreviationDeclaration(static_cast<std::uint32_t>(code));
    if (abbreviation == nullptr) return true;
    const std::uint64_t steps = search_steps + abbreviation->getNumAttributes();
    if (steps > steps_left) return false;
    steps_left -= steps;
    if (const auto fixed = abbreviation->getFixedAttributesByteSize(unit)) {
      if (*fixed > end - at) return false;
      at += *fixed;
      if (only_first) return true;
      continue;
    }
    for (const auto& attribute : abbreviation->attributes()) {
      if (attribute.isImplicitConst()) continue;
      const std::uint64_t before = at;
      if (!llvm::DWARFFormValue::skipValue(attribute.Form, data, &at, unit.getFormParams()))
        return true;
      if (at < before || at > end) return false;
    }
    if (only_first) return true;
  }
  return true;
}

} // namespace

bool has_bounded_entries(const llvm::DWARFUnit& unit) { return are_bounded(unit, false); }
bool has_bounded_root(const llvm::DWARFUnit& unit) { return are_bounded(unit, true); }

namespace {

bool is_safe_index(Bytes index, ByteOrder order) {
  elf::DwarfCursor cursor(index, order);
  cursor.skip(4); // version
  const std::uint64_t columns = cursor.number(4);
  const std::uint64_t units = cursor.number(4);
  const std::uint64_t slots = cursor.number(4);
  constexpr std::uint64_t max_columns = 16;
  if (cursor.failed() || columns > max_columns) return false;
  // Searches end at an empty slot.
  if (units >= slots || (slots & (slots - 1)) != 0) return units == 0 && slots == 0;
  const std::uint64_t needed = cursor.at() + 12 * slots + 4 * columns + 8 * columns * units;
  if (needed > index.size()) return false;
  cursor.skip(8 * slots); // signatures
  std::vector<bool> used(units);
  for (std::uint64_t i = 0; i < slots; ++i) {
    const std::uint64_t row = cursor.number(4);
    if (row > units || (row != 0 && used[row - 1])) return false;
    if (row != 0) used[row - 1] = true;
  }
  return std::ranges::find(used, false) == used.end();
}

} // namespace

bool has_safe_split_sections(const elf::Layout& layout) {
  for (const std::string_view name : {".debug_cu_index", ".debug_tu_index"}) {
    const auto index = elf::section_bytes(layout, name);
    if (index && !index->empty() && !is_safe_index(*index, layout.machine.order)) return false;
  }
  for (const std::string_view name :
       {".debug_info.dwo", ".debug_types.dwo", ".debug_abbrev.dwo", ".debug_line.dwo",
        ".debug_loc.dwo", ".debug_loclists.dwo", ".debug_rnglists.dwo", ".debug_str.dwo",
        ".debug_str_offsets.dwo", ".debug_macro.dwo", ".debug_macinfo.dwo"}) {
    const auto section = elf::find_section(layout, name);
    if (section && section->is_compressed && !elf::section_content(layout, name, max_section_size))
      return false;
  }
  return true;
}

} // namespace uprobectl::dwarf
