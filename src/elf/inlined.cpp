// SPDX-License-Identifier: Apache-2.0
#include "elf/inlined.hpp"

#include "elf/debug_file.hpp"
#include "elf/dwarf_cursor.hpp"
#include "elf/sections.hpp"

#include <llvm/BinaryFormat/Dwarf.h>
#include <unordered_map>
#include <vector>

namespace uprobectl::elf {

namespace {

namespace dwarf = llvm::dwarf;

// A unit of .debug_info (DWARF 5, 7.5.1).
struct DwarfUnit {
  std::uint64_t start = 0; // in .debug_info: the base of references within the unit
  std::uint64_t first = 0; // of its first entry
  std::uint64_t end = 0;
  std::uint64_t abbreviations = 0; // in .debug_abbrev
  unsigned version = 0;
  unsigned offset_size = 4; // 8 in the 64-bit format
  unsigned address_size = 8;
  bool is_type_unit = false;
  std::uint64_t string_offsets = 0; // DW_AT_str_offsets_base
};

// Abbreviations (DWARF 5, 7.5.3).
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
  // Reads the table at an offset. Returns nullopt if it is truncated.
  static std::optional<DwarfAbbreviations> read(const DwarfSections& sections, std::uint64_t at);

  const DwarfAbbreviation* find(std::uint64_t code) const;
  std::span<const DwarfAttribute> attributes(const DwarfAbbreviation& abbreviation) const {
    return std::span(attributes_).subspan(abbreviation.first, abbreviation.count);
  }
  std::uint64_t bytes() const { return bytes_; } // its size in .debug_abbrev

private:
  std::vector<DwarfAbbreviation> abbreviations_;
  std::vector<DwarfAttribute> attributes_;
  std::uint64_t bytes_ = 0;
};

constexpr std::uint64_t max_u32 = 0xffffffff;

// The unit whose header begins there. Returns nullopt unless it is complete and of version 2 to 5.
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
      cursor.skip(8 + unit.offset_size); // signature and offset of the type
    else if (type == dwarf::DW_UT_skeleton || type == dwarf::DW_UT_split_compile)
      cursor.skip(8); // the unit id
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
        .tag = static_cast<std::uint32_t>(std::min(cursor.unsigned_leb(), max_u32)),
        .first = static_cast<std::uint32_t>(table.attributes_.size()),
        .count = 0};
    cursor.skip(1); // DW_CHILDREN_*: entries are read sequentially
    for (;;) {
      const std::uint64_t name = std::min(cursor.unsigned_leb(), max_u32);
      const std::uint64_t form = std::min(cursor.unsigned_leb(), max_u32);
      if (cursor.failed()) return std::nullopt;
      if (name == 0 && form == 0) break;
      if (form == dwarf::DW_FORM_implicit_const)
        cursor.skip_leb(); // the value is part of the abbreviation
      table.attributes_.push_back(
          {static_cast<std::uint32_t>(name), static_cast<std::uint32_t>(form)});
      ++abbreviation.count;
    }
    table.abbreviations_.push_back(abbreviation);
  }
  table.bytes_ = cursor.at() - at;
  std::ranges::sort(table.abbreviations_, {}, &DwarfAbbreviation::code); // usually sorted already
  return table;
}

const DwarfAbbreviation* DwarfAbbreviations::find(std::uint64_t code) const {
  // Codes are usually numbered from 1 without a gap.
  if (code - 1 < abbreviations_.size() && abbreviations_[code - 1].code == code)
    return &abbreviations_[code - 1];
  const auto at = std::ranges::lower_bound(abbreviations_, code, {}, &DwarfAbbreviation::code);
  return at != abbreviations_.end() && at->code == code ? &*at : nullptr;
}

constexpr std::uint32_t no_form = 0; // not the number of any form

// Resolves DW_FORM_indirect: the real form precedes each value. It must be neither indirect again
// nor one whose value is in the abbreviation.
std::uint32_t direct_form(DwarfCursor& cursor, std::uint32_t form) {
  if (form != dwarf::DW_FORM_indirect) return form;
  const std::uint64_t real = cursor.unsigned_leb();
  if (real > 0xffff || real == dwarf::DW_FORM_indirect || real == dwarf::DW_FORM_implicit_const)
    return no_form;
  return static_cast<std::uint32_t>(real);
}

// Forms (DWARF 5, 7.5.6; those of GNU as in LLVM's BinaryFormat/Dwarf.def). The size of values of
// this form, if it is fixed.
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
  case dwarf::DW_FORM_ref_addr: // DWARF 2 uses the size of an address
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

// Like the following two functions, moves the cursor behind the value. An unknown form makes the
// cursor fail.
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

// Returns nullopt if the form does not hold text, or text of another file.
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
  default:
    skip_value(cursor, form, unit);
    return std::nullopt;
  }
}

// The offset in .debug_info of the referenced entry, in this unit or another one.
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
    // See fixed_size(); an address of any other size is not a valid reference.
    switch (const auto size = *fixed_size(form, unit)) {
    case 4:
    case 8:
      return cursor.number(static_cast<unsigned>(size));
    default:
      cursor.fail();
      return std::nullopt;
    }
  default: // in a type unit or another file, or not a reference
    skip_value(cursor, form, unit);
    return std::nullopt;
  }
}

std::uint64_t read_section_offset(DwarfCursor& cursor, std::uint32_t form, const DwarfUnit& unit) {
  if (form == dwarf::DW_FORM_sec_offset) return cursor.number(unit.offset_size);
  skip_value(cursor, form, unit);
  return 0;
}

// The attributes of an entry that counting needs.
struct DwarfEntry {
  std::optional<std::string_view> name;
  std::optional<std::string_view> linkage_name;
  std::optional<std::uint64_t> specification; // the declaration that it completes
  std::optional<std::uint64_t> origin;        // the function that is inlined
  bool has_code = false;
};

// Counts DW_TAG_inlined_subroutine entries (DWARF 5, 3.3.8.2) by the name of the inlined function.
// References may lead forwards and into other units, so all entries are read first. Functions are
// identified by the offset of their entry:
//   inlined copy -> (abstract_origin) function -> (specification) declaration, which has the name.
class InlinedPlaces {
public:
  InlinedPlaces(const DwarfSections& sections, std::span<const std::string_view> names)
      : sections_(sections), work_left_(8 * sections.info.size() + 4 * sections.abbrev.size()) {
    for (std::size_t i = 0; i < names.size(); ++i) requested_[names[i]].push_back(i);
    counts_.resize(names.size());
  }

  void read_all() {
    for (std::uint64_t at = 0; at < sections_.info.size() && work_left_ > 0;) {
      auto unit = next_unit(at);
      if (!unit) return;
      at = unit->end;
      if (!unit->is_type_unit && use_abbreviations(unit->abbreviations)) read_entries(*unit);
    }
  }

  std::vector<std::optional<std::uint64_t>> counts() {
    for (const auto& [entry, declaration] : completed_)
      if (const auto at = functions_.find(declaration); at != functions_.end())
        functions_.emplace(entry, at->second);
    for (const auto& [entry, name] : functions_) {
      const auto copies = copies_.find(entry);
      for (const std::size_t i : *name)
        counts_[i] = counts_[i].value_or(0) + (copies == copies_.end() ? 0 : copies->second);
    }
    return std::move(counts_);
  }

private:
  std::optional<DwarfUnit> next_unit(std::uint64_t at) const {
    auto unit = read_unit(sections_, at);
    // The header of the string offsets has twice the size of an offset (DWARF 5, 7.26). Earlier
    // versions, used by GNU's split units only, have no header.
    if (unit && unit->version == 5) unit->string_offsets = std::uint64_t{2} * unit->offset_size;
    return unit;
  }

  // Consecutive units often share a table.
  bool use_abbreviations(std::uint64_t at) {
    if (abbreviations_ && abbreviations_at_ == at) return true;
    abbreviations_ = DwarfAbbreviations::read(sections_, at);
    abbreviations_at_ = at;
    return abbreviations_ && take_work(abbreviations_->bytes());
  }

  // Bounds the work: an abbreviation may have any number of attributes without bytes in
  // .debug_info.
  bool take_work(std::uint64_t work) {
    work_left_ -= std::min(work_left_, work);
    return work_left_ > 0;
  }

  void read_entries(DwarfUnit& unit) {
    DwarfCursor cursor(sections_.info.first(unit.end), sections_.order);
    cursor.seek(unit.first);
    while (!cursor.at_end()) {
      const std::uint64_t at = cursor.at();
      const std::uint64_t code = cursor.unsigned_leb();
      if (code == 0) continue; // the end of an entry's children, or padding
      const DwarfAbbreviation* const abbreviation = abbreviations_->find(code);
      if (abbreviation == nullptr || !take_work(1 + abbreviation->count)) return;
      const auto attributes = abbreviations_->attributes(*abbreviation);
      switch (abbreviation->tag) {
      case dwarf::DW_TAG_subprogram:
      case dwarf::DW_TAG_inlined_subroutine: {
        const DwarfEntry entry = read_entry(cursor, attributes, unit);
        if (!cursor.failed()) gather(at, abbreviation->tag, entry);
        break;
      }
      default:
        for (const DwarfAttribute& attribute : attributes) {
          // An attribute of the unit's first entry.
          if (attribute.name == dwarf::DW_AT_str_offsets_base)
            unit.string_offsets = read_section_offset(cursor, attribute.form, unit);
          else
            skip_value(cursor, attribute.form, unit);
        }
      }
    }
  }

  DwarfEntry read_entry(DwarfCursor& cursor, std::span<const DwarfAttribute> attributes,
                        const DwarfUnit& unit) const {
    DwarfEntry entry;
    for (const DwarfAttribute& attribute : attributes) {
      switch (attribute.name) {
      case dwarf::DW_AT_name:
        entry.name = read_text(cursor, attribute.form, unit, sections_);
        break;
      case dwarf::DW_AT_linkage_name:
      case dwarf::DW_AT_MIPS_linkage_name:
        entry.linkage_name = read_text(cursor, attribute.form, unit, sections_);
        break;
      case dwarf::DW_AT_specification:
        entry.specification = read_reference(cursor, attribute.form, unit);
        break;
      case dwarf::DW_AT_abstract_origin:
        entry.origin = read_reference(cursor, attribute.form, unit);
        break;
      case dwarf::DW_AT_low_pc:
      case dwarf::DW_AT_ranges:
      case dwarf::DW_AT_entry_pc:
        entry.has_code = true;
        [[fallthrough]];
      default:
        skip_value(cursor, attribute.form, unit);
      }
    }
    return entry;
  }

  void gather(std::uint64_t at, std::uint32_t tag, const DwarfEntry& entry) {
    if (tag == dwarf::DW_TAG_inlined_subroutine) {
      // Without code it belongs to the abstract instance of another function.
      if (entry.origin && entry.has_code) ++copies_[*entry.origin];
      return;
    }
    const auto& name = entry.linkage_name ? entry.linkage_name : entry.name;
    if (name) {
      if (const auto found = requested_.find(*name); found != requested_.end())
        functions_.emplace(at, &found->second);
    } else if (entry.specification) {
      completed_.emplace_back(at, *entry.specification);
    }
  }

  const DwarfSections& sections_;
  std::uint64_t work_left_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> requested_; // indices of counts_
  std::optional<DwarfAbbreviations> abbreviations_;
  std::uint64_t abbreviations_at_ = 0;
  std::unordered_map<std::uint64_t, const std::vector<std::size_t>*> functions_; // by entry
  std::vector<std::pair<std::uint64_t, std::uint64_t>> completed_; // entry, its declaration
  std::unordered_map<std::uint64_t, std::uint64_t> copies_;        // how many, by origin
  std::vector<std::optional<std::uint64_t>> counts_;
};

Result<std::vector<std::optional<std::uint64_t>>>
count_in(const Layout& layout, std::span<const std::string_view> names) {
  std::vector<SectionContent> contents; // own the inflated ones
  DwarfSections debug{.order = layout.machine.order};
  const std::pair<std::string_view, Bytes*> all[] = {{".debug_info", &debug.info},
                                                     {".debug_abbrev", &debug.abbrev},
                                                     {".debug_str", &debug.str},
                                                     {".debug_line_str", &debug.line_str},
                                                     {".debug_str_offsets", &debug.str_offsets}};
  for (const auto& [name, bytes] : all) {
    auto content = section_content(layout, name, max_debug_info);
    if (!content) return fail(std::move(content).error());
    if (!*content) continue;
    *bytes = (*content)->bytes;
    contents.push_back(std::move(**content));
  }
  if (debug.info.empty()) return fail(ErrorKind::not_found, "no .debug_info");
  return count_inlined_places(debug, names);
}

} // namespace

std::vector<std::optional<std::uint64_t>>
count_inlined_places(const DwarfSections& sections, std::span<const std::string_view> names) {
  InlinedPlaces places(sections, names);
  places.read_all();
  return places.counts();
}

Result<std::vector<std::optional<std::uint64_t>>>
count_inlined(const Image& image, const DebugSearch& where,
              std::span<const std::string_view> names) {
  const auto layout = read_sections_only(image.bytes());
  if (!layout) return fail(layout.error());
  auto own = count_in(*layout, names);
  if (own || own.error().kind != ErrorKind::not_found) return own;
  const auto file = find_debug_file(image, where);
  if (!file) return own;
  const auto debug_layout = read_sections_only(file->bytes);
  if (!debug_layout) return fail(debug_layout.error());
  return count_in(*debug_layout, names);
}

} // namespace uprobectl::elf
