#include "elf/dwarf_unit.hpp"

#include <llvm/BinaryFormat/Dwarf.h>

namespace uprobectl::elf {

namespace {

namespace dwarf = llvm::dwarf;

constexpr std::uint64_t most_of_32_bits = 0xffffffff;

} // namespace

std::optional<DwarfUnit> read_unit(const DwarfSections& sections, std::uint64_t start) {
  DwarfCursor cursor(sections.info, sections.order);
  cursor.seek(start);
  DwarfUnit unit{.start = start};
  std::uint64_t length = cursor.number(4);
  if (length == dwarf::DW_LENGTH_DWARF64) {
    unit.offset_size = 8;
    length = cursor.number(8);
  }
  const auto end = checked_add(cursor.at(), length);
  if (!end || *end > sections.info.size()) return std::nullopt;
  unit.end = *end;
  unit.version = static_cast<unsigned>(cursor.number(2));
  if (unit.version < 2 || unit.version > 5) return std::nullopt;
  if (unit.version == 5) {
    const std::uint64_t type = cursor.number(1);
    unit.address_size = static_cast<unsigned>(cursor.number(1));
    unit.abbreviations = cursor.number(unit.offset_size);
    unit.is_type_unit = type == dwarf::DW_UT_type || type == dwarf::DW_UT_split_type;
    if (unit.is_type_unit)
      cursor.skip(8 + unit.offset_size); // its signature, and where its type is
    else if (type == dwarf::DW_UT_skeleton || type == dwarf::DW_UT_split_compile)
      cursor.skip(8); // what joins the two
  } else {
    unit.abbreviations = cursor.number(unit.offset_size);
    unit.address_size = static_cast<unsigned>(cursor.number(1));
  }
  unit.first = cursor.at();
  if (cursor.failed() || unit.first > unit.end) return std::nullopt;
  return unit;
}

std::optional<DwarfAbbreviations> DwarfAbbreviations::read(const DwarfSections& sections,
                                                           std::uint64_t at) {
  DwarfCursor cursor(sections.abbrev, sections.order);
  cursor.seek(at);
  DwarfAbbreviations table;
  for (;;) {
    const std::uint64_t code = cursor.unsigned_leb();
    if (cursor.failed()) return std::nullopt;
    if (code == 0) break;
    DwarfAbbreviation abbreviation{
        .code = code,
        .tag = static_cast<std::uint32_t>(std::min(cursor.unsigned_leb(), most_of_32_bits)),
        .first = static_cast<std::uint32_t>(table.attributes_.size()),
        .count = 0};
    cursor.skip(1); // DW_CHILDREN_yes or _no: entries are read one after the other
    for (;;) {
      const std::uint64_t name = std::min(cursor.unsigned_leb(), most_of_32_bits);
      const std::uint64_t form = std::min(cursor.unsigned_leb(), most_of_32_bits);
      if (cursor.failed()) return std::nullopt;
      if (name == 0 && form == 0) break;
      if (form == dwarf::DW_FORM_implicit_const) cursor.skip_leb(); // its value stands here
      table.attributes_.push_back(
          {static_cast<std::uint32_t>(name), static_cast<std::uint32_t>(form)});
      ++abbreviation.count;
    }
    table.abbreviations_.push_back(abbreviation);
  }
  table.bytes_ = cursor.at() - at;
  std::ranges::sort(table.abbreviations_, {}, &DwarfAbbreviation::code); // mostly it is so already
  return table;
}

const DwarfAbbreviation* DwarfAbbreviations::find(std::uint64_t code) const {
  // They are mostly numbered from 1 without a gap.
  if (code - 1 < abbreviations_.size() && abbreviations_[code - 1].code == code)
    return &abbreviations_[code - 1];
  const auto at = std::ranges::lower_bound(abbreviations_, code, {}, &DwarfAbbreviation::code);
  return at != abbreviations_.end() && at->code == code ? &*at : nullptr;
}

} // namespace uprobectl::elf
