// SPDX-License-Identifier: Apache-2.0
#include "dwarf/name_index.hpp"

#include "elf/dwarf_cursor.hpp"

#include <algorithm>

namespace uprobectl::dwarf {

namespace {

using elf::DwarfCursor;

Bytes index_bytes(llvm::StringRef text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Reads a value of an entry. Fails for forms that indexes do not use.
std::uint64_t read_value(DwarfCursor& cursor, std::uint64_t form) {
  using namespace llvm::dwarf;
  switch (form) {
  case DW_FORM_flag_present:
    return 1;
  case DW_FORM_flag:
  case DW_FORM_data1:
  case DW_FORM_ref1:
    return cursor.number(1);
  case DW_FORM_data2:
  case DW_FORM_ref2:
    return cursor.number(2);
  case DW_FORM_data4:
  case DW_FORM_ref4:
    return cursor.number(4);
  case DW_FORM_data8:
  case DW_FORM_ref8:
  case DW_FORM_ref_sig8:
    return cursor.number(8);
  case DW_FORM_udata:
  case DW_FORM_ref_udata:
    return cursor.unsigned_leb();
  default:
    cursor.fail();
    return 0;
  }
}

} // namespace

NameIndex::NameIndex(Context& context)
    : context_(context), order_(context.layout().machine.order),
      section_(index_bytes(context.dwarf().getDWARFObj().getNamesSection().Data)),
      strings_(index_bytes(context.dwarf().getDWARFObj().getStrSection())) {}

std::optional<NameIndex> NameIndex::read(Context& context) {
  NameIndex index(context);
  if (index.section_.empty()) return std::nullopt;
  if (!index.read_tables()) {
    context.warn("the index in .debug_names is damaged and not used");
    return std::nullopt;
  }
  if (!index.has_all_units()) return std::nullopt;
  return index;
}

bool NameIndex::read_tables() {
  for (std::uint64_t at = 0; at < section_.size();) {
    DwarfCursor cursor(section_.subspan(at), order_);
    std::uint64_t size = cursor.number(4);
    const bool is_64bit_format = size == 0xffffffff;
    if (is_64bit_format) size = cursor.number(8);
    const auto bytes = slice(section_, at + cursor.at(), size);
    if (cursor.failed() || !bytes || !read_table(*bytes, is_64bit_format ? 8 : 4)) return false;
    at += cursor.at() + size;
  }
  return true;
}

// `bytes`: after the length.
bool NameIndex::read_table(Bytes bytes, unsigned offset_size) {
  DwarfCursor cursor(bytes, order_);
  constexpr std::uint64_t version = 5;
  if (cursor.number(2) != version) return false;
  cursor.skip(2); // padding
  const std::uint64_t units = cursor.number(4);
  const std::uint64_t local_types = cursor.number(4);
  const std::uint64_t foreign_types = cursor.number(4);
  const std::uint64_t buckets = cursor.number(4);
  const std::uint64_t names = cursor.number(4);
  const std::uint64_t abbreviations_size = cursor.number(4);
  const std::uint64_t augmentation_size = cursor.number(4);
  cursor.skip((augmentation_size + 3) / 4 * 4);
  // The counts have 32 bits, so that these products do not overflow.
  const auto take = [&](std::uint64_t size) {
    const auto taken = slice(bytes, cursor.at(), size);
    cursor.skip(size);
    return taken.value_or(Bytes());
  };
  Table table{.units = {}, .name_count = names, .offset_size = offset_size};
  DwarfCursor unit_offsets(take(units * offset_size), order_);
  cursor.skip(local_types * offset_size);
  cursor.skip(foreign_types * 8);
  cursor.skip(buckets * 4);
  cursor.skip(buckets > 0 ? names * 4 : 0); // hashes
  table.names = take(names * offset_size);
  table.entries = take(names * offset_size);
  const Bytes abbreviations = take(abbreviations_size);
  if (cursor.failed() || !read_abbreviations(abbreviations, table)) return false;
  table.pool = bytes.subspan(cursor.at());
  while (!unit_offsets.at_end()) {
    const std::uint64_t offset = unit_offsets.number(offset_size);
    llvm::DWARFUnit* const unit = context_.dwarf().getCompileUnitForOffset(offset);
    if (unit == nullptr || unit->getOffset() != offset) return false;
    table.units.push_back(unit);
  }
  tables_.push_back(std::move(table));
  return true;
}

bool NameIndex::read_abbreviations(Bytes bytes, Table& table) const {
  DwarfCursor cursor(bytes, order_);
  for (std::uint64_t code = cursor.unsigned_leb(); code != 0; code = cursor.unsigned_leb()) {
    Abbreviation made;
    const std::uint64_t tag = cursor.unsigned_leb();
    if (tag > UINT16_MAX) return false;
    made.tag = static_cast<std::uint16_t>(tag);
    for (;;) {
      const std::uint64_t index = cursor.unsigned_leb();
      const std::uint64_t form = cursor.unsigned_leb();
      if (cursor.failed()) return false;
      if (index == 0 && form == 0) break;
      made.attributes.push_back({index, form});
    }
    if (!table.abbreviations.emplace(code, std::move(made)).second) return false;
  }
  return !cursor.failed();
}

bool NameIndex::has_all_units() const {
  std::set<const llvm::DWARFUnit*> units;
  for (const Table& table : tables_) units.insert(table.units.begin(), table.units.end());
  return std::ranges::all_of(context_.dwarf().normal_units(), [&](const auto& unit) {
    return unit->isTypeUnit() || units.contains(unit.get());
  });
}

bool NameIndex::visit(const std::function<bool(std::string_view)>& is_wanted,
                      const std::function<void(std::string_view, const Entry&)>& visit) const {
  // Names of a damaged index may share a long list of entries, or a long text.
  std::uint64_t work_left = 8 * (section_.size() + strings_.size());
  const auto take_work = [&](std::uint64_t work) {
    work_left -= std::min(work_left, work);
    return work_left > 0;
  };
  bool is_sound = true;
  for (const Table& table : tables_) {
    DwarfCursor names(table.names, order_);
    DwarfCursor entries(table.entries, order_);
    for (std::uint64_t i = 0; is_sound && i < table.name_count; ++i) {
      const auto name = c_string_at(strings_, names.number(table.offset_size));
      const std::uint64_t at = entries.number(table.offset_size);
      is_sound = name && take_work(1 + name->size());
      if (is_sound && is_wanted(*name))
        is_sound = visit_entries(table, at, *name, work_left, visit);
    }
  }
  if (!is_sound) context_.warn("the index in .debug_names is damaged and not used");
  return is_sound;
}

bool NameIndex::visit_entries(
    const Table& table, std::uint64_t at, std::string_view name, std::uint64_t& work_left,
    const std::function<void(std::string_view, const Entry&)>& visit) const {
  DwarfCursor cursor(table.pool, order_);
  cursor.seek(at);
  for (std::uint64_t code = cursor.unsigned_leb(); code != 0; code = cursor.unsigned_leb()) {
    const auto found = table.abbreviations.find(code);
    if (found == table.abbreviations.end()) return false;
    const std::uint64_t work = 1 + found->second.attributes.size();
    if (work > work_left) return false;
    work_left -= work;
    std::uint64_t unit = 0; // an index of one unit does not write its number
    std::optional<std::uint64_t> offset;
    bool is_in_type_unit = false;
    for (const Attribute& attribute : found->second.attributes) {
      const std::uint64_t value = read_value(cursor, attribute.form);
      if (attribute.index == llvm::dwarf::DW_IDX_compile_unit) unit = value;
      if (attribute.index == llvm::dwarf::DW_IDX_die_offset) offset = value;
      if (attribute.index == llvm::dwarf::DW_IDX_type_unit) is_in_type_unit = true;
    }
    if (cursor.failed()) return false;
    if (is_in_type_unit) continue;
    if (unit >= table.units.size() || !offset) return false;
    visit(name, {.unit = table.units[unit], .offset = *offset, .tag = found->second.tag});
  }
  return !cursor.failed();
}

std::optional<std::set<const llvm::DWARFUnit*>>
units_with_names(Context& context, const std::function<bool(std::string_view)>& is_wanted,
                 std::span<const std::uint16_t> tags) {
  const auto index = NameIndex::read(context);
  std::set<const llvm::DWARFUnit*> units;
  const auto add = [&](std::string_view, const NameIndex::Entry& entry) {
    if (std::ranges::find(tags, entry.tag) != tags.end()) units.insert(entry.unit);
  };
  if (!index || !index->visit(is_wanted, add)) return std::nullopt;
  return units;
}

} // namespace uprobectl::dwarf
