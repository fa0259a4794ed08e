// SPDX-License-Identifier: Apache-2.0
// The line table of one unit (DWARF 5, 6.2; versions 2 to 5). Rows are passed on one by one: LLVM's
// DWARFDebugLine keeps all rows of a table in memory and trusts the counts in its header. Only this
// module includes this header.
#pragma once

#include "dwarf/context.hpp"

#include <expected>

namespace uprobectl::dwarf {

// A row of the table. The last row of a sequence is not passed on.
struct LineRow {
  std::uint64_t address = 0;
  std::uint64_t file = 0; // index in LineTable::files()
  std::uint64_t line = 0;
  std::uint64_t column = 0;     // 0: unknown
  bool is_statement = false;    // recommended for a breakpoint
  bool ends_prologue = false;   // recommended for a breakpoint at the function
  bool begins_sequence = false; // the first row of a sequence, after which addresses only increase
};

class LineTable {
public:
  struct File {
    std::string_view name; // with or without folders
    std::uint64_t folder = 0;
  };

  // Reads the header of the unit's table. nullopt without a table, and with a warning if the header
  // is damaged. The strings are those of the unit's context.
  static std::optional<LineTable> read(Context& context, llvm::DWARFUnit& unit);
  // Reads the header of the table at the offset in .debug_line. If needs_unit(), its paths are not
  // known before set_unit(). Fails with what is wrong with the table.
  static std::expected<LineTable, std::string> read_at(Context& context, std::uint64_t offset);
  // Whether the table lacks the folder of its unit, as versions before 5 do.
  bool needs_unit() const { return has_no_folder_; }
  void set_unit(Context& context, llvm::DWARFUnit& unit);
  // Returns where the unit's table begins in .debug_line; nullopt without a table.
  static std::optional<std::uint64_t> offset_of(llvm::DWARFUnit& unit);

  // Returns the files by the index that rows and DW_AT_decl_file use. Versions before 5 have no
  // file 0, which is then without a name.
  const std::vector<File>& files() const { return files_; }
  // Returns the path of the file, absolute if the unit's folder is known, as the compiler wrote it;
  // empty for an index without a file.
  std::string written_path(std::uint64_t file) const;
  // Returns the path without "." and "..".
  std::string path(std::uint64_t file) const;
  // Size of the table, bytes.
  std::uint64_t size() const { return size_; }

  // Calls visit for each row, except in sequences that the linker has removed (see
  // Context::is_code).
  void visit_rows(const std::function<void(const LineRow&)>& visit) const;
  // Also calls `end` with the address after each of these sequences.
  void visit_rows(const std::function<void(const LineRow&)>& visit,
                  const std::function<void(std::uint64_t)>& end) const;

private:
  struct Reader;
  struct Machine;
  static std::expected<LineTable, std::string> parse(const Context& context, Bytes section,
                                                     std::uint64_t offset, ByteOrder order,
                                                     const llvm::DWARFObject& object);

  const Context* context_ = nullptr;
  std::vector<std::string_view> folders_; // 0: the unit's folder
  bool has_no_folder_ = false;            // folder 0 is that of set_unit()
  std::vector<File> files_;
  std::vector<std::uint8_t> opcode_lengths_; // of standard opcodes, from opcode 1
  Bytes program_;
  std::uint64_t size_ = 0;
  ByteOrder order_ = ByteOrder::little;
  std::uint8_t min_instruction_size_ = 1;
  std::uint8_t max_operations_ = 1;
  bool default_is_statement_ = true;
  std::int8_t line_base_ = 0;
  std::uint8_t line_range_ = 1;
  std::uint8_t opcode_base_ = 13;
};

// The rows of a table by address.
class LineIndex {
public:
  // If there are too many rows, the rest is not read, with a warning.
  LineIndex(Context& context, const LineTable& table);

  struct Row {
    std::uint64_t address = 0;
    std::uint32_t file = 0;
    std::uint32_t line = 0;
    std::uint32_t column = 0;
    bool is_statement = false;
  };
  // Returns the row that covers the address; null if there is none.
  const Row* at(VirtualAddress address) const;
  // Returns the lowest address in the range where a statement begins.
  std::optional<std::uint64_t> first_statement(std::uint64_t begin, std::uint64_t end) const;
  // Returns the lowest address in the range at which a row ends a prologue.
  std::optional<std::uint64_t> first_prologue_end(std::uint64_t begin, std::uint64_t end) const;

private:
  struct Sequence {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::size_t first = 0; // in rows_
    std::size_t count = 0;
  };
  std::vector<Row> rows_;                    // sorted by address within a sequence
  std::vector<Sequence> sequences_;          // sorted
  std::vector<std::uint64_t> statements_;    // sorted
  std::vector<std::uint64_t> prologue_ends_; // sorted
};

// A table that is read, and its index once an address was searched.
struct UnitLines {
  LineTable table;
  std::optional<LineIndex> index = {};
};

// Returns the path of the file that an attribute of the entry or of its origin refers to
// (DW_AT_decl_file, DW_AT_call_file); empty if it is unknown. DWARFDie::getDeclFile() ignores
// DW_FORM_implicit_const.
std::string referenced_file(Context& context, const Die& die, Attribute attribute);

// Returns the path without "." and "..": "/b/../src/./x.c" is "/src/x.c".
std::string normal_path(std::string_view path);

} // namespace uprobectl::dwarf
