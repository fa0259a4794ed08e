#include "elf/dwarf_unit.hpp"

#include <llvm/BinaryFormat/Dwarf.h>

namespace uprobectl::elf {

namespace {

namespace dwarf = llvm::dwarf;

constexpr std::uint32_t no_form = 0; // none has this number

// What DW_FORM_indirect stands for: the real form is in front of each value. It may not be
// indirect again, nor one whose value is in the abbreviation.
std::uint32_t direct_form(DwarfCursor& cursor, std::uint32_t form) {
  if (form != dwarf::DW_FORM_indirect) return form;
  const std::uint64_t real = cursor.unsigned_leb();
  if (real > 0xffff || real == dwarf::DW_FORM_indirect || real == dwarf::DW_FORM_implicit_const)
    return no_form;
  return static_cast<std::uint32_t>(real);
}

// How many bytes values of this form have, where it is always the same.
std::optional<std::uint64_t> fixed_size(std::uint32_t form, const DwarfUnit& unit) {
  switch (form) {
  case dwarf::DW_FORM_flag_present:
  case dwarf::DW_FORM_implicit_const:
    return 0;
  case dwarf::DW_FORM_data1:
  case dwarf::DW_FORM_ref1:
  case dwarf::DW_FORM_flag:
  case dwarf::DW_FORM_strx1:
  case dwarf::DW_FORM_addrx1:
    return 1;
  case dwarf::DW_FORM_data2:
  case dwarf::DW_FORM_ref2:
  case dwarf::DW_FORM_strx2:
  case dwarf::DW_FORM_addrx2:
    return 2;
  case dwarf::DW_FORM_strx3:
  case dwarf::DW_FORM_addrx3:
    return 3;
  case dwarf::DW_FORM_data4:
  case dwarf::DW_FORM_ref4:
  case dwarf::DW_FORM_strx4:
  case dwarf::DW_FORM_addrx4:
  case dwarf::DW_FORM_ref_sup4:
    return 4;
  case dwarf::DW_FORM_data8:
  case dwarf::DW_FORM_ref8:
  case dwarf::DW_FORM_ref_sig8:
  case dwarf::DW_FORM_ref_sup8:
    return 8;
  case dwarf::DW_FORM_data16:
    return 16;
  case dwarf::DW_FORM_addr:
    return unit.address_size;
  case dwarf::DW_FORM_ref_addr: // in DWARF 2 of an address's size
    return unit.version == 2 ? unit.address_size : unit.offset_size;
  case dwarf::DW_FORM_strp:
  case dwarf::DW_FORM_line_strp:
  case dwarf::DW_FORM_strp_sup:
  case dwarf::DW_FORM_sec_offset:
  case dwarf::DW_FORM_GNU_ref_alt:
  case dwarf::DW_FORM_GNU_strp_alt:
    return unit.offset_size;
  default:
    return std::nullopt;
  }
}

std::optional<std::string_view> indexed_text(std::uint64_t index, const DwarfUnit& unit,
                                             const DwarfSections& sections) {
  const auto offset = checked_mul(index, unit.offset_size);
  const auto at = offset ? checked_add(unit.string_offsets, *offset) : std::nullopt;
  if (!at) return std::nullopt;
  DwarfCursor offsets(sections.str_offsets, sections.order);
  offsets.seek(*at);
  const std::uint64_t text = offsets.number(unit.offset_size);
  return offsets.failed() ? std::nullopt : c_string_at(sections.str, text);
}

} // namespace

void skip_value(DwarfCursor& cursor, std::uint32_t form, const DwarfUnit& unit) {
  form = direct_form(cursor, form);
  if (const auto size = fixed_size(form, unit)) return cursor.skip(*size);
  switch (form) {
  case dwarf::DW_FORM_block1:
    return cursor.skip(cursor.number(1));
  case dwarf::DW_FORM_block2:
    return cursor.skip(cursor.number(2));
  case dwarf::DW_FORM_block4:
    return cursor.skip(cursor.number(4));
  case dwarf::DW_FORM_block:
  case dwarf::DW_FORM_exprloc:
    return cursor.skip(cursor.unsigned_leb());
  case dwarf::DW_FORM_string:
    cursor.text();
    return;
  case dwarf::DW_FORM_sdata:
  case dwarf::DW_FORM_udata:
  case dwarf::DW_FORM_ref_udata:
  case dwarf::DW_FORM_strx:
  case dwarf::DW_FORM_addrx:
  case dwarf::DW_FORM_loclistx:
  case dwarf::DW_FORM_rnglistx:
  case dwarf::DW_FORM_GNU_addr_index:
  case dwarf::DW_FORM_GNU_str_index:
    return cursor.skip_leb();
  default:
    return cursor.fail();
  }
}

std::optional<std::string_view> read_text(DwarfCursor& cursor, std::uint32_t form,
                                          const DwarfUnit& unit, const DwarfSections& sections) {
  form = direct_form(cursor, form);
  switch (form) {
  case dwarf::DW_FORM_string:
    return cursor.text();
  case dwarf::DW_FORM_strp:
    return c_string_at(sections.str, cursor.number(unit.offset_size));
  case dwarf::DW_FORM_line_strp:
    return c_string_at(sections.line_str, cursor.number(unit.offset_size));
  case dwarf::DW_FORM_strx:
  case dwarf::DW_FORM_GNU_str_index:
    return indexed_text(cursor.unsigned_leb(), unit, sections);
  case dwarf::DW_FORM_strx1:
    return indexed_text(cursor.number(1), unit, sections);
  case dwarf::DW_FORM_strx2:
    return indexed_text(cursor.number(2), unit, sections);
  case dwarf::DW_FORM_strx3:
    return indexed_text(cursor.number(3), unit, sections);
  case dwarf::DW_FORM_strx4:
    return indexed_text(cursor.number(4), unit, sections);
  default: // in another file, or no text
    skip_value(cursor, form, unit);
    return std::nullopt;
  }
}

std::optional<std::uint64_t> read_reference(DwarfCursor& cursor, std::uint32_t form,
                                            const DwarfUnit& unit) {
  form = direct_form(cursor, form);
  switch (form) {
  case dwarf::DW_FORM_ref1:
    return checked_add(unit.start, cursor.number(1));
  case dwarf::DW_FORM_ref2:
    return checked_add(unit.start, cursor.number(2));
  case dwarf::DW_FORM_ref4:
    return checked_add(unit.start, cursor.number(4));
  case dwarf::DW_FORM_ref8:
    return checked_add(unit.start, cursor.number(8));
  case dwarf::DW_FORM_ref_udata:
    return checked_add(unit.start, cursor.unsigned_leb());
  case dwarf::DW_FORM_ref_addr:
    // fixed_size has its two sizes; an address of another size is no reference.
    switch (const auto size = *fixed_size(form, unit)) {
    case 4:
    case 8:
      return cursor.number(static_cast<unsigned>(size));
    default:
      cursor.fail();
      return std::nullopt;
    }
  default: // in a type unit or another file, or no reference
    skip_value(cursor, form, unit);
    return std::nullopt;
  }
}

std::uint64_t read_section_offset(DwarfCursor& cursor, std::uint32_t form, const DwarfUnit& unit) {
  if (form == dwarf::DW_FORM_sec_offset) return cursor.number(unit.offset_size);
  skip_value(cursor, form, unit);
  return 0;
}

} // namespace uprobectl::elf
