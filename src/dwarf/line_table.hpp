// SPDX-License-Identifier: Apache-2.0
// The line table of one unit (DWARF 5, 6.2; versions 2 to 5). Rows are passed on one by one: LLVM's
// DWARFDebugLine keeps all rows of a table in memory and trusts the counts in its header. Only this
// module includes this header.
#pragma once

#include "dwarf/context.hpp"

namespace uprobectl::dwarf {

// A row of the table. The last row of a sequence is not passed on.
struct LineRow {
  std::uint64_t address = 0;
  std::uint64_t file = 0; // index in LineTable::files()
  std::uint64_t line = 0;
  bool is_statement = false;    // a recommended place for a breakpoint
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
  // Returns where the unit's table begins in .debug_line; nullopt without a table.
  static std::optional<std::uint64_t> offset_of(llvm::DWARFUnit& unit);

  // By the index that rows and DW_AT_decl_file use: versions before 5 have no file 0, which is then
  // without a name.
  const std::vector<File>& files() const { return files_; }
  // Returns the path of the file, absolute if the unit's folder is known, without "." and "..";
  // empty for an index without a file.
  std::string path(std::uint64_t file) const;
  // Size of the table, bytes.
  std::uint64_t size() const { return size_; }

  // Calls visit for each row, except in sequences that the linker has removed (at address 0 or at
  // the end of the address space).
  void visit_rows(const std::function<void(const LineRow&)>& visit) const;

private:
  struct Reader;
  struct Machine;

  std::vector<std::string_view> folders_; // 0: the unit's folder
  std::vector<File> files_;
  std::vector<std::uint8_t> opcode_lengths_; // of standard opcodes, from opcode 1
  Bytes program_;
  std::uint64_t size_ = 0;
  ByteOrder order_ = ByteOrder::little;
  std::uint8_t address_size_ = 8;
  std::uint8_t min_instruction_size_ = 1;
  std::uint8_t max_operations_ = 1;
  bool default_is_statement_ = true;
  std::int8_t line_base_ = 0;
  std::uint8_t line_range_ = 1;
  std::uint8_t opcode_base_ = 13;
};

// Returns the path without "." and "..": "/b/../src/./x.c" is "/src/x.c".
std::string normal_path(std::string_view path);

} // namespace uprobectl::dwarf
