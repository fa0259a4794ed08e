// SPDX-License-Identifier: Apache-2.0
#include "dwarf/line_table.hpp"

#include "dwarf/attributes.hpp"
#include "elf/dwarf_cursor.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace uprobectl::dwarf {

namespace {

using elf::DwarfCursor;

Bytes bytes_of(llvm::StringRef text) { return std::as_bytes(std::span(text.data(), text.size())); }

// Bounds the entries of a unit's file table. The largest known have some thousand.
constexpr std::size_t max_files = std::size_t{1} << 20;

// Bounds the rows of an index: the largest units, made by link-time optimization, have some
// million.
constexpr std::size_t max_rows = std::size_t{1} << 24;

} // namespace

std::string normal_path(std::string_view path) {
  return std::filesystem::path(path).lexically_normal().string();
}

std::string referenced_file(Context& context, const Die& die, Attribute attribute) {
  const Die entry = context.with_attribute(die, attribute);
  if (!entry) return {};
  const auto index = unsigned_constant(entry, attribute);
  const LineTable* const table = index ? context.line_table(*entry.getDwarfUnit()) : nullptr;
  return table != nullptr ? table->written_path(*index) : std::string();
}

// Reads a header.
struct LineTable::Reader {
  Reader(Bytes table, ByteOrder order, const llvm::DWARFObject& object)
      : cursor(table, order), strings(bytes_of(object.getStrSection())),
        line_strings(bytes_of(object.getLineStrSection())) {}

  // A part of a directory or file entry of version 5.
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
      if (entries.size() >= max_files) {
        cursor.fail();
        return {};
      }
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
  auto table = parse(context, bytes_of(owner.getLineSection().Data), *begin,
                     owner.isLittleEndian() ? ByteOrder::little : ByteOrder::big,
                     owner.getContext().getDWARFObj());
  if (!table) {
    context.warn(fmt::format("the line table at {:#x} {}", *begin, table.error()));
    return std::nullopt;
  }
  table->set_unit(context, owner);
  return std::move(*table);
}

std::expected<LineTable, std::string> LineTable::read_at(Context& context, std::uint64_t offset) {
  const llvm::DWARFObject& object = context.dwarf().getDWARFObj();
  return parse(context, bytes_of(object.getLineSection().Data), offset,
               object.isLittleEndian() ? ByteOrder::little : ByteOrder::big, object);
}

void LineTable::set_unit(Context& context, llvm::DWARFUnit& unit) {
  if (!has_no_folder_) return;
  folders_[0] = context.text(unit.getUnitDIE(), llvm::dwarf::DW_AT_comp_dir).value_or("");
  has_no_folder_ = false;
}

std::expected<LineTable, std::string> LineTable::parse(const Context& context, Bytes section,
                                                       std::uint64_t offset, ByteOrder order,
                                                       const llvm::DWARFObject& object) {
  const auto damaged = [](std::string what) { return std::unexpected(std::move(what)); };
  if (offset >= section.size()) return damaged("is outside .debug_line");

  LineTable table;
  table.context_ = &context;
  table.order_ = order;
  Reader lengths(section.subspan(offset), order, object);
  std::uint64_t size = lengths.cursor.number(4);
  lengths.is_64bit_format = size == 0xffffffff;
  if (lengths.is_64bit_format) size = lengths.cursor.number(8);
  const std::uint64_t length_size = lengths.cursor.at();
  if (lengths.cursor.failed() || size > section.size() - offset - length_size)
    return damaged("is truncated");

  const Bytes all = section.subspan(offset, length_size + size);
  Reader reader(all, order, object);
  reader.is_64bit_format = lengths.is_64bit_format;
  DwarfCursor& cursor = reader.cursor;
  cursor.seek(length_size);
  const std::uint64_t version = cursor.number(2);
  if (version < 2 || version > 5)
    return damaged(fmt::format("has the unknown version {}", version));
  if (version == 5) {
    cursor.skip(2); // sizes of an address and of a segment selector
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

  if (version == 5) {
    for (const File& folder : reader.entries()) table.folders_.push_back(folder.name);
    table.files_ = reader.entries();
    table.has_no_folder_ = table.folders_.empty();
    if (table.has_no_folder_) table.folders_.emplace_back();
  } else {
    table.has_no_folder_ = true;
    table.folders_.emplace_back();
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

std::string LineTable::written_path(std::uint64_t file) const {
  if (file >= files_.size() || files_[file].name.empty()) return {};
  const File& entry = files_[file];
  std::string path(entry.name);
  const auto put_below = [&](std::string_view folder) {
    if (path.starts_with('/') || folder.empty()) return;
    path = fmt::format("{}{}{}", folder, folder.ends_with('/') ? "" : "/", path);
  };
  if (entry.folder > 0 && entry.folder < folders_.size()) put_below(folders_[entry.folder]);
  put_below(folders_[0]);
  return path;
}

std::string LineTable::path(std::uint64_t file) const { return normal_path(written_path(file)); }

// The state machine (DWARF 5, 6.2.2).
struct LineTable::Machine {
  Machine(const LineTable& of, const std::function<void(const LineRow&)>& on_row,
          const std::function<void(std::uint64_t)>& on_end)
      : table(of), visit(on_row), sequence_end(on_end) {
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
    if (row.begins_sequence) is_removed = !table.context_->is_code(row.address);
    if (!is_removed) visit(row);
    row.begins_sequence = false;
    row.ends_prologue = false;
  }

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
    if (opcode == llvm::dwarf::DW_LNE_end_sequence) {
      if (sequence_end && !row.begins_sequence && !is_removed) sequence_end(row.address);
      reset();
    }
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
    case DW_LNS_set_column:
      row.column = cursor.unsigned_leb();
      return;
    case DW_LNS_negate_stmt:
      row.is_statement = !row.is_statement;
      return;
    case DW_LNS_set_prologue_end:
      row.ends_prologue = true;
      return;
    case DW_LNS_const_add_pc:
      advance((255U - table.opcode_base_) / table.line_range_);
      return;
    case DW_LNS_fixed_advance_pc:
      row.address += cursor.number(2);
      operation = 0;
      return;
    default: // the instruction set and unknown opcodes: their operands are skipped
      for (unsigned i = 0; i < table.opcode_lengths_[opcode - 1]; ++i) cursor.skip_leb();
    }
  }

  const LineTable& table;
  const std::function<void(const LineRow&)>& visit;
  const std::function<void(std::uint64_t)>& sequence_end; // may be empty
  LineRow row = {};
  std::uint64_t operation = 0; // of an address with several (VLIW)
  bool is_removed = false;
};

void LineTable::visit_rows(const std::function<void(const LineRow&)>& visit) const {
  visit_rows(visit, nullptr);
}

void LineTable::visit_rows(const std::function<void(const LineRow&)>& visit,
                           const std::function<void(std::uint64_t)>& end) const {
  Machine machine(*this, visit, end);
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

LineIndex::LineIndex(Context& context, const LineTable& table) {
  const auto narrow = [](std::uint64_t number) {
    return static_cast<std::uint32_t>(number <= UINT32_MAX ? number : 0);
  };
  bool is_full = false;
  table.visit_rows(
      [&](const LineRow& row) {
        if (row.begins_sequence)
          sequences_.push_back({.begin = row.address, .first = rows_.size()});
        is_full |= rows_.size() >= max_rows;
        if (is_full) return;
        rows_.push_back(
            {.address = row.address,
             .file = static_cast<std::uint32_t>(std::min<std::uint64_t>(row.file, UINT32_MAX)),
             .line = narrow(row.line),
             .column = narrow(row.column),
             .is_statement = row.is_statement});
        if (row.is_statement) statements_.push_back(row.address);
        if (row.ends_prologue) prologue_ends_.push_back(row.address);
      },
      [&](std::uint64_t end) {
        Sequence& ended = sequences_.back();
        ended.end = end;
        ended.count = rows_.size() - ended.first;
      });
  if (is_full) context.warn(fmt::format("a line table has more than {} rows", max_rows));
  // A table without the end of its last sequence leaves that sequence empty. Empty functions leave
  // sequences without code, where the next function begins.
  std::erase_if(sequences_,
                [](const Sequence& each) { return each.count == 0 || each.end <= each.begin; });
  for (const Sequence& each : sequences_) {
    const auto rows = std::span(rows_).subspan(each.first, each.count);
    if (!std::ranges::is_sorted(rows, {}, &Row::address))
      std::ranges::sort(rows, {}, &Row::address);
  }
  std::ranges::sort(sequences_, {}, &Sequence::begin);
  std::ranges::sort(statements_);
  std::ranges::sort(prologue_ends_);
}

const LineIndex::Row* LineIndex::at(VirtualAddress address) const {
  const auto after = std::ranges::upper_bound(sequences_, address.value, {}, &Sequence::begin);
  if (after == sequences_.begin() || address.value >= std::prev(after)->end) return nullptr;
  const auto rows = std::span(rows_).subspan(std::prev(after)->first, std::prev(after)->count);
  const auto next = std::ranges::upper_bound(rows, address.value, {}, &Row::address);
  return next == rows.begin() ? nullptr : &*std::prev(next);
}

namespace {

std::optional<std::uint64_t> first_in(const std::vector<std::uint64_t>& sorted, std::uint64_t begin,
                                      std::uint64_t end) {
  const auto first = std::ranges::lower_bound(sorted, begin);
  return first != sorted.end() && *first < end ? std::optional(*first) : std::nullopt;
}

} // namespace

std::optional<std::uint64_t> LineIndex::first_statement(std::uint64_t begin,
                                                        std::uint64_t end) const {
  return first_in(statements_, begin, end);
}

std::optional<std::uint64_t> LineIndex::first_prologue_end(std::uint64_t begin,
                                                           std::uint64_t end) const {
  return first_in(prologue_ends_, begin, end);
}

} // namespace uprobectl::dwarf
