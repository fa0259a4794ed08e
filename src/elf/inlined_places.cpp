#include "elf/inlined_places.hpp"

#include <llvm/BinaryFormat/Dwarf.h>
#include <unordered_map>

namespace uprobectl::elf {

namespace {

namespace dwarf = llvm::dwarf;

// What counting needs of an entry.
struct DwarfEntry {
  std::optional<std::string_view> name;
  std::optional<std::string_view> linkage_name;
  std::optional<std::uint64_t> specification; // the declaration that it completes
  std::optional<std::uint64_t> origin;        // what it is a copy of
  bool has_code = false;
};

// References lead forwards and into other units, so entries are gathered first. Functions are told
// apart by where their entry is in .debug_info:
//   inlined copy -> (abstract_origin) function -> (specification) declaration, which has the name.
class InlinedPlaces {
public:
  InlinedPlaces(const DwarfSections& sections, std::span<const std::string_view> names)
      : sections_(sections), work_left_(8 * sections.info.size() + 4 * sections.abbrev.size()) {
    for (std::size_t i = 0; i < names.size(); ++i) wanted_[names[i]].push_back(i);
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
    // By name: the entries that are such a function.
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
    // The string offsets' header has twice the offsets' size (DWARF 5, 7.26); those of earlier
    // versions, which only GNU's split units have, none.
    if (unit && unit->version == 5) unit->string_offsets = std::uint64_t{2} * unit->offset_size;
    return unit;
  }

  // Many units may share a table, mostly one after the other.
  bool use_abbreviations(std::uint64_t at) {
    if (abbreviations_ && abbreviations_at_ == at) return true;
    abbreviations_ = DwarfAbbreviations::read(sections_, at);
    abbreviations_at_ = at;
    return abbreviations_ && take_work(abbreviations_->bytes());
  }

  // An abbreviation may have any number of attributes that take no byte in .debug_info.
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
          // In the unit's own entry, the first.
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
      // Without code it is the copy within a function that is itself but a pattern for copies.
      if (entry.origin && entry.has_code) ++copies_[*entry.origin];
      return;
    }
    const auto& name = entry.linkage_name ? entry.linkage_name : entry.name;
    if (name) {
      if (const auto found = wanted_.find(*name); found != wanted_.end())
        functions_.emplace(at, &found->second);
    } else if (entry.specification) {
      completed_.emplace_back(at, *entry.specification);
    }
  }

  const DwarfSections& sections_;
  std::uint64_t work_left_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> wanted_; // indices of counts_
  std::optional<DwarfAbbreviations> abbreviations_;
  std::uint64_t abbreviations_at_ = 0;
  std::unordered_map<std::uint64_t, const std::vector<std::size_t>*> functions_; // by entry
  std::vector<std::pair<std::uint64_t, std::uint64_t>> completed_; // entry, its declaration
  std::unordered_map<std::uint64_t, std::uint64_t> copies_;        // how many, by origin
  std::vector<std::optional<std::uint64_t>> counts_;
};

} // namespace

std::vector<std::optional<std::uint64_t>>
count_inlined_places(const DwarfSections& sections, std::span<const std::string_view> names) {
  InlinedPlaces places(sections, names);
  places.read_all();
  return places.counts();
}

} // namespace uprobectl::elf
