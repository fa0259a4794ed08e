// SPDX-License-Identifier: Apache-2.0
#include "dwarf/line_table.hpp"

#include "elf/dwarf_cursor.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace uprobectl::dwarf {

namespace {

using elf::DwarfCursor;

Bytes bytes_of(llvm::StringRef text) { return std::as_bytes(std::span(text.data(), text.size())); }

// Bounds the entries of a unit's file table. The largest known have some thousand.
constexpr std::size_t max_files = std::size_t{1} << 20;

} // namespace

std::string normal_path(std::string_view path) {
  return std::filesystem::path(path).lexically_normal().string();
}

// Reads a header.
struct LineTable::Reader {
  Reader(Bytes table, ByteOrder order, const llvm::DWARFObject& object)
      : cursor(table, order), strings(bytes_of(object.getStrSection())),
        line_strings(bytes_of(object.getLineStrSection())) {}

  // What a directory or file entry of version 5 consists of.
  struct Field {
    std::uint64_t content = 0; // DW_LNCT_*
    std::uint64_t form = 0;
  };

  std::uint64_t offset() { return cursor.number(is_64bit_format ? 8 : 4); }

  // Fails for forms that need other sections. Compilers do not use them here.
  void read(const Field& field, File& file) {
    using namespace llvm::dwarf;
    std::uint64_t number = 0;
    std::optional<std::string_view> text;
    switch (field.form) {
    case DW_FORM_string:
      text = cursor.text();
      break;
    case DW_FORM_strp:
      text = c_string_at(strings, offset());
      break;
    case DW_FORM_line_strp:
      text = c_string_at(line_strings, offset());
      break;
    case DW_FORM_udata:
      number = cursor.unsigned_leb();
      break;
    case DW_FORM_data1:
      number = cursor.number(1);
      break;
    case DW_FORM_data2:
      number = cursor.number(2);
      break;
    case DW_FORM_data4:
      number = cursor.number(4);
      break;
    case DW_FORM_data8:
      number = cursor.number(8);
      break;
    case DW_FORM_data16:
      cursor.skip(16);
      break;
    case DW_FORM_block:
      cursor.skip(cursor.unsigned_leb());
      break;
    default:
      cursor.fail();
      break;
    }
    if (field.content == DW_LNCT_path) file.name = text.value_or("");
    if (field.content == DW_LNCT_directory_index) file.folder = number;
  }

  // A table of directories or files (DWARF 5, 6.2.4.1).
  std::vector<File> entries() {
    std::vector<Field> fields(cursor.number(1));
    for (Field& field : fields) {
      field.content = cursor.unsigned_leb();
      field.form = cursor.unsigned_leb();
    }
    std::vector<File> entries;
    const std::uint64_t count = cursor.unsigned_leb();
    if (fields.empty() && count > 0) cursor.fail();
    // Each entry has at least one byte, so that a wrong count ends with the table.
    for (std::uint64_t i = 0; i < count && !cursor.failed(); ++i) {
      if (entries.size() >= max_files) return {};
      File& file = entries.emplace_back();
      for (const Field& field : fields) read(field, file);
    }
    return entries;
  }

  DwarfCursor cursor;
  Bytes strings;
  Bytes line_strings;
  bool is_64bit_format = false;
};

std::optional<std::uint64_t> LineTable::offset_of(llvm::DWARFUnit& unit) {
  // A split unit uses the table of its skeleton (DWARF 5, 3.1.3).
  llvm::DWARFUnit* const linked = unit.getLinkedUnit();
  const Die root = (linked != nullptr ? *linked : unit).getUnitDIE();
  return root ? llvm::dwarf::toSectionOffset(root.find(llvm::dwarf::DW_AT_stmt_list))
              : std::nullopt;
}

std::optional<LineTable> LineTable::read(Context& context, llvm::DWARFUnit& unit) {
  const auto begin = offset_of(unit);
  if (!begin) return std::nullopt;
  llvm::DWARFUnit* const linked = unit.getLinkedUnit();
  llvm::DWARFUnit& owner = linked != nullptr ? *linked : unit;
  const auto damaged = [&](std::string_view what) -> std::optional<LineTable> {
    context.warn(fmt::format("the line table at {:#x} {}", *begin, what));
    return std::nullopt;
  };
  const Bytes section = bytes_of(owner.getLineSection().Data);
  if (*begin >= section.size()) return damaged("is outside .debug_line");

  LineTable table;
  table.order_ = owner.isLittleEndian() ? ByteOrder::little : ByteOrder::big;
  Reader lengths(section.subspan(*begin), table.order_, owner.getContext().getDWARFObj());
  std::uint64_t size = lengths.cursor.number(4);
  lengths.is_64bit_format = size == 0xffffffff;
  if (lengths.is_64bit_format) size = lengths.cursor.number(8);
  const std::uint64_t length_size = lengths.cursor.at();
  if (lengths.cursor.failed() || size > section.size() - *begin - length_size)
    return damaged("is truncated");

  const Bytes all = section.subspan(*begin, length_size + size);
  Reader reader(all, table.order_, owner.getContext().getDWARFObj());
  reader.is_64bit_format = lengths.is_64bit_format;
  DwarfCursor& cursor = reader.cursor;
  cursor.seek(length_size);
  const std::uint64_t version = cursor.number(2);
  if (version < 2 || version > 5)
    return damaged(fmt::format("has the unknown version {}", version));
  table.address_size_ = owner.getAddressByteSize();
  if (version == 5) {
    table.address_size_ = static_cast<std::uint8_t>(cursor.number(1));
    cursor.skip(1); // size of a segment selector, always 0
  }
  const std::uint64_t header_length = reader.offset();
  const auto program_begin = checked_add(cursor.at(), header_length);
  table.min_instruction_size_ = static_cast<std::uint8_t>(cursor.number(1));
  if (version >= 4) table.max_operations_ = static_cast<std::uint8_t>(cursor.number(1));
  table.default_is_statement_ = cursor.number(1) != 0;
  table.line_base_ = static_cast<std::int8_t>(cursor.number(1));
  table.line_range_ = static_cast<std::uint8_t>(cursor.number(1));
  table.opcode_base_ = static_cast<std::uint8_t>(cursor.number(1));
  if (cursor.failed() || !program_begin || *program_begin > all.size() || table.line_range_ == 0 ||
      table.opcode_base_ == 0)
    return damaged("has a damaged header");
  for (unsigned opcode = 1; opcode < table.opcode_base_; ++opcode)
    table.opcode_lengths_.push_back(static_cast<std::uint8_t>(cursor.number(1)));

  using llvm::dwarf::DW_AT_comp_dir;
  const auto unit_folder = context.text(owner.getUnitDIE(), DW_AT_comp_dir).value_or("");
  if (version == 5) {
    for (const File& folder : reader.entries()) table.folders_.push_back(folder.name);
    table.files_ = reader.entries();
    if (table.folders_.empty()) table.folders_.push_back(unit_folder);
  } else {
    table.folders_.push_back(unit_folder);
    for (auto name = cursor.text(); !name.empty(); name = cursor.text())
      table.folders_.push_back(name);
    table.files_.emplace_back();
    for (auto name = cursor.text(); !name.empty(); name = cursor.text()) {
      table.files_.push_back({.name = name, .folder = cursor.unsigned_leb()});
      cursor.skip_leb(); // time
      cursor.skip_leb(); // size
    }
  }
  if (cursor.failed() || cursor.at() > *program_begin) return damaged("has a damaged header");
  table.size_ = all.size();
  table.program_ = all.subspan(*program_begin);
  return table;
}

std::string LineTable::path(std::uint64_t file) const {
  if (file >= files_.size() || files_[file].name.empty()) return {};
  const File& entry = files_[file];
  std::string path(entry.name);
  const auto put_below = [&](std::string_view folder) {
    if (!path.starts_with('/') && !folder.empty()) path = fmt::format("{}/{}", folder, path);
  };
  if (entry.folder > 0 && entry.folder < folders_.size()) put_below(folders_[entry.folder]);
  put_below(folders_[0]);
  return normal_path(path);
}

// The state machine (DWARF 5, 6.2.2).
struct LineTable::Machine {
  Machine(const LineTable& of, const std::function<void(const LineRow&)>& callback)
      : table(of), visit(callback) {
    reset();
  }

  void reset() {
    row = {.file = 1, .line = 1, .is_statement = table.default_is_statement_};
    row.begins_sequence = true;
    operation = 0;
    is_removed = false;
  }

  void advance(std::uint64_t operations) {
    const std::uint64_t per_address = std::max<unsigned>(table.max_operations_, 1);
    const std::uint64_t sum = operation + operations;
    row.address +=
        table.min_instruction_size_ * (per_address == 1 ? operations : sum / per_address);
    operation = per_address == 1 ? 0 : sum % per_address;
  }

  void emit() {
    if (row.begins_sequence)
      is_removed = row.address == 0 || row.address >= last_address() - max_tombstone;
    if (!is_removed) visit(row);
    row.begins_sequence = false;
  }

  std::uint64_t last_address() const { return table.address_size_ == 4 ? UINT32_MAX : UINT64_MAX; }

  void special(std::uint64_t opcode) {
    const std::uint64_t adjusted = opcode - table.opcode_base_;
    advance(adjusted / table.line_range_);
    row.line += static_cast<std::uint64_t>(table.line_base_ +
                                           static_cast<std::int64_t>(adjusted % table.line_range_));
    emit();
  }

  void extended(DwarfCursor& cursor) {
    const std::uint64_t size = cursor.unsigned_leb();
    const auto end = checked_add(cursor.at(), size);
    if (!end || size == 0) return;
    const std::uint64_t opcode = cursor.number(1);
    if (opcode == llvm::dwarf::DW_LNE_end_sequence) reset();
    if (opcode == llvm::dwarf::DW_LNE_set_address && (size == 5 || size == 9)) {
      row.address = cursor.number(static_cast<unsigned>(size - 1));
      operation = 0;
    }
    cursor.seek(*end);
  }

  void standard(std::uint64_t opcode, DwarfCursor& cursor) {
    using namespace llvm::dwarf;
    switch (opcode) {
    case DW_LNS_copy:
      emit();
      return;
    case DW_LNS_advance_pc:
      advance(cursor.unsigned_leb());
      return;
    case DW_LNS_advance_line:
      row.line += static_cast<std::uint64_t>(cursor.signed_leb());
      return;
    case DW_LNS_set_file:
      row.file = cursor.unsigned_leb();
      return;
    case DW_LNS_negate_stmt:
      row.is_statement = !row.is_statement;
      return;
    case DW_LNS_const_add_pc:
      advance((255U - table.opcode_base_) / table.line_range_);
      return;
    case DW_LNS_fixed_advance_pc:
      row.address += cursor.number(2);
      operation = 0;
      return;
    default: // the column, the instruction set and unknown opcodes: their operands are skipped
      for (unsigned i = 0; i < table.opcode_lengths_[opcode - 1]; ++i) cursor.skip_leb();
    }
  }

  // Linkers write the last two addresses for code that they have removed.
  static constexpr std::uint64_t max_tombstone = 1;

  const LineTable& table;
  const std::function<void(const LineRow&)>& visit;
  LineRow row = {};
  std::uint64_t operation = 0; // of an address with several (VLIW)
  bool is_removed = false;
};

void LineTable::visit_rows(const std::function<void(const LineRow&)>& visit) const {
  Machine machine(*this, visit);
  DwarfCursor cursor(program_, order_);
  while (!cursor.at_end()) {
    const std::uint64_t opcode = cursor.number(1);
    if (opcode >= opcode_base_)
      machine.special(opcode);
    else if (opcode == 0)
      machine.extended(cursor);
    else
      machine.standard(opcode, cursor);
  }
}

} // namespace uprobectl::dwarf
