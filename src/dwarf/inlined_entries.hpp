// SPDX-License-Identifier: Apache-2.0
// Where the code of inlined copies begins. A copy may begin at several addresses, because compilers
// duplicate code. gcc marks each of them by a row of the line table, a statement at the position of
// the function's name; DW_AT_entry_pc is the first one only (gcc/dwarf2out.cc,
// dwarf2out_inline_entry). Only this module includes this header.
#pragma once

#include "dwarf/attributes.hpp"

#include <map>
#include <unordered_map>

namespace uprobectl::dwarf {

struct CopyEntries {
  std::vector<std::uint64_t> addresses; // sorted, without repetitions
  bool are_marked = false;
  bool is_known = false; // a call runs one of them, as far as the debug information says
};

// Reads the entries of the copies of one unit after the other.
class EntryReader {
public:
  explicit EntryReader(Context& context) : context_(context), ranges_(context) {}

  // Begins a unit. `copies`: all its copies that will be asked for; their entries are in `entries`.
  void begin(llvm::DWARFUnit& unit, llvm::DWARFUnit& entries,
             std::span<const std::uint64_t> copies);

  // Whether the copy is a part of a function that gcc has split off, and inlined again into the
  // rest of it. The call's position is that of the function's name
  // (gcc/ipa-split.cc).
  bool is_part(const Die& copy);

  llvm::DWARFAddressRangesVector ranges_of(const Die& die) { return ranges_.of(die); }
  // Returns no addresses if the linker has removed the code.
  CopyEntries entries_of(const Die& copy, const llvm::DWARFAddressRangesVector& ranges);

private:
  // The position of a function's name, as entries have it.
  struct Position {
    std::uint64_t line = 0;
    std::uint64_t column = 0; // 0: unknown, as in what clang writes
    std::string file;
  };
  const Position& declared(const Die& origin);
  // Returns the addresses of the rows that mark the copy, with repetitions.
  std::vector<std::uint64_t> find_marks(const Die& copy, const Die& origin);
  bool is_file(std::uint64_t file, const std::string& path);

  Context& context_;
  RangeReader ranges_;
  std::map<std::pair<const llvm::DWARFUnit*, std::uint64_t>, Position> declared_; // by origin

  // The members below are about one unit.
  llvm::DWARFUnit* unit_ = nullptr;
  struct Row {
    std::uint64_t key = 0; // line and column
    std::uint64_t address = 0;
    std::uint64_t file = 0;
  };
  std::vector<Row> rows_;                                // at positions of functions, sorted
  std::unordered_map<std::uint64_t, std::string> paths_; // of files of the line table
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> marks_; // by copy; not empty
};

} // namespace uprobectl::dwarf
