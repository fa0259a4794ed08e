// Units of .debug_info: their headers, their abbreviations, and how values are stored.
// Source: DWARF 5 (dwarfstd.org), sections 7.5.1 (unit headers), 7.5.3 (abbreviations), 7.5.6
// (forms); the forms of GNU are those of LLVM's BinaryFormat/Dwarf.def.
#pragma once

#include "elf/dwarf_cursor.hpp"

#include <vector>

namespace uprobectl::elf {

struct DwarfSections {
  Bytes info;
  Bytes abbrev;
  Bytes str;
  Bytes line_str;
  Bytes str_offsets;
  ByteOrder order = ByteOrder::little;
};

struct DwarfUnit {
  std::uint64_t start = 0; // in .debug_info: what references within the unit are relative to
  std::uint64_t first = 0; // of its first entry
  std::uint64_t end = 0;
  std::uint64_t abbreviations = 0; // in .debug_abbrev
  unsigned version = 0;
  unsigned offset_size = 4; // 8 in the 64-bit format
  unsigned address_size = 8;
  bool is_type_unit = false;
  std::uint64_t string_offsets = 0; // DW_AT_str_offsets_base
};

// The unit whose header begins there; versions 2 to 5. Nothing if it is another version or does
// not lie inside.
std::optional<DwarfUnit> read_unit(const DwarfSections& sections, std::uint64_t start);

struct DwarfAttribute {
  std::uint32_t name = 0; // DW_AT_…
  std::uint32_t form = 0; // DW_FORM_…
};

struct DwarfAbbreviation {
  std::uint64_t code = 0;
  std::uint32_t tag = 0; // DW_TAG_…
  // In DwarfAbbreviations::attributes.
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

class DwarfAbbreviations {
public:
  // Those of one table, up to its end. Nothing if it does not end inside.
  static std::optional<DwarfAbbreviations> read(const DwarfSections& sections, std::uint64_t at);

  const DwarfAbbreviation* find(std::uint64_t code) const;
  std::span<const DwarfAttribute> attributes(const DwarfAbbreviation& abbreviation) const {
    return std::span(attributes_).subspan(abbreviation.first, abbreviation.count);
  }
  std::uint64_t bytes() const { return bytes_; } // that it takes in .debug_abbrev

private:
  std::vector<DwarfAbbreviation> abbreviations_;
  std::vector<DwarfAttribute> attributes_;
  std::uint64_t bytes_ = 0;
};

// Each moves the cursor behind the value. What a form does not hold is nothing; a form that is not
// known leaves the cursor failed.
void skip_value(DwarfCursor& cursor, std::uint32_t form, const DwarfUnit& unit);
std::optional<std::string_view> read_text(DwarfCursor& cursor, std::uint32_t form,
                                          const DwarfUnit& unit, const DwarfSections& sections);
// Of an entry in .debug_info, in this unit or another.
std::optional<std::uint64_t> read_reference(DwarfCursor& cursor, std::uint32_t form,
                                            const DwarfUnit& unit);
std::uint64_t read_section_offset(DwarfCursor& cursor, std::uint32_t form, const DwarfUnit& unit);

} // namespace uprobectl::elf
