// SPDX-License-Identifier: Apache-2.0
#include "dwarf/inlined_entries.hpp"

#include "dwarf/line_table.hpp"

#include <algorithm>
#include <unordered_set>

namespace uprobectl::dwarf {

namespace {

constexpr int max_nested = 64; // copies in each other that are searched

std::uint64_t key_of(std::uint64_t line, std::uint64_t column) {
  constexpr unsigned column_bits = 24;
  return line << column_bits | (column & ((std::uint64_t{1} << column_bits) - 1));
}

// Whether the address is in one of the ranges. A range without a length contains its address: all
// its instructions have been moved away.
bool contains(const llvm::DWARFAddressRangesVector& ranges, std::uint64_t address) {
  return std::ranges::any_of(ranges, [&](const llvm::DWARFAddressRange& range) {
    return address == range.LowPC || (address > range.LowPC && address < range.HighPC);
  });
}

// Returns the lowest address of the ranges where a statement begins.
std::optional<std::uint64_t> first_statement(const LineIndex& lines,
                                             const llvm::DWARFAddressRangesVector& ranges) {
  std::optional<std::uint64_t> first;
  for (const llvm::DWARFAddressRange& range : ranges)
    if (const auto address = lines.first_statement(range.LowPC, range.HighPC))
      first = std::min(*address, first.value_or(*address));
  return first;
}

// Visits the copies inside an entry, but not the functions.
template <typename Visit>
void visit_nested(const Die& around, Visit visit, int depth = 0) {
  if (depth == max_nested) return;
  for (const Die& die : around.children()) {
    if (die.getTag() == llvm::dwarf::DW_TAG_inlined_subroutine) visit(die);
    if (die.hasChildren() && !die.isSubprogramDIE()) visit_nested(die, visit, depth + 1);
  }
}

} // namespace

const EntryReader::Position& EntryReader::declared(const Die& origin) {
  using namespace llvm::dwarf;
  const auto [known, is_new] = declared_.try_emplace({origin.getDwarfUnit(), origin.getOffset()});
  Position& position = known->second;
  if (!is_new) return position;
  const auto number = [&](Attribute attribute) {
    const Die named = context_.with_attribute(origin, attribute);
    return named ? unsigned_constant(named, attribute).value_or(0) : 0;
  };
  position.column = number(DW_AT_decl_column);
  if (position.column == 0) return position;
  position.line = number(DW_AT_decl_line);
  position.file = normal_path(referenced_file(context_, origin, DW_AT_decl_file));
  return position;
}

void EntryReader::begin(llvm::DWARFUnit& unit, llvm::DWARFUnit& entries,
                        std::span<const std::uint64_t> copies) {
  unit_ = &unit;
  rows_.clear();
  paths_.clear();
  marks_.clear();
  std::vector<std::pair<Die, Die>> with_position; // copies and their functions
  std::unordered_set<std::uint64_t> wanted;
  for (const std::uint64_t offset : copies) {
    const Die copy = entries.getDIEForOffset(offset);
    const Die origin = context_.referenced(copy, llvm::dwarf::DW_AT_abstract_origin);
    if (!origin) continue;
    const Position& position = declared(origin);
    if (position.column == 0) continue;
    wanted.insert(key_of(position.line, position.column));
    with_position.emplace_back(copy, origin);
  }
  const LineTable* const table = wanted.empty() ? nullptr : context_.line_table(unit);
  if (table == nullptr) return;
  table->visit_rows([&](const LineRow& row) {
    if (!row.is_statement) return;
    if (const std::uint64_t key = key_of(row.line, row.column); wanted.contains(key))
      rows_.push_back({.key = key, .address = row.address, .file = row.file});
  });
  if (rows_.empty()) return;
  std::ranges::sort(rows_, {}, [](const Row& row) { return std::pair(row.key, row.address); });
  for (const auto& [copy, origin] : with_position)
    if (auto marks = find_marks(copy, origin); !marks.empty())
      marks_.emplace(copy.getOffset(), std::move(marks));
}

bool EntryReader::is_file(std::uint64_t file, const std::string& path) {
  const auto [known, is_new] = paths_.try_emplace(file);
  if (is_new) known->second = context_.line_table(*unit_)->path(file);
  return known->second == path;
}

bool EntryReader::is_part(const Die& copy) {
  using namespace llvm::dwarf;
  const Die origin = context_.referenced(copy, DW_AT_abstract_origin);
  if (!origin) return false;
  const Position& position = declared(origin);
  return position.column != 0 && unsigned_constant(copy, DW_AT_call_line) == position.line &&
         unsigned_constant(copy, DW_AT_call_column) == position.column &&
         normal_path(referenced_file(context_, copy, DW_AT_call_file)) == position.file;
}

std::vector<std::uint64_t> EntryReader::find_marks(const Die& copy, const Die& origin) {
  std::vector<std::uint64_t> marks;
  const Position& position = declared(origin);
  const auto rows =
      std::ranges::equal_range(rows_, key_of(position.line, position.column), {}, &Row::key);
  if (rows.empty()) return marks;
  for (const llvm::DWARFAddressRange& range : ranges_.of(copy))
    for (auto row = std::ranges::lower_bound(rows, range.LowPC, {}, &Row::address);
         row != rows.end() && (row->address < range.HighPC || row->address == range.LowPC); ++row)
      if (is_file(row->file, position.file)) marks.push_back(row->address);
  std::ranges::sort(marks);
  if (marks.empty()) return marks;
  // Rows of copies of the same function inside.
  visit_nested(copy, [&](const Die& nested) {
    if (context_.referenced(nested, llvm::dwarf::DW_AT_abstract_origin) != origin) return;
    const auto inside = ranges_.of(nested);
    std::optional<std::uint64_t> last;
    std::erase_if(marks, [&](std::uint64_t mark) {
      const bool is_next = contains(inside, mark) && last != mark;
      if (is_next) last = mark;
      return is_next;
    });
  });
  return marks;
}

CopyEntries EntryReader::entries_of(const Die& copy, const llvm::DWARFAddressRangesVector& ranges) {
  using namespace llvm::dwarf;
  if (ranges.empty() && copy.find({DW_AT_low_pc, DW_AT_ranges})) return {};
  auto entry = entry_pc(copy, ranges);
  CopyEntries found{.are_marked = entry.has_value()};
  if (const auto marks = marks_.find(copy.getOffset()); marks != marks_.end()) {
    found.addresses = marks->second;
    found.are_marked = true;
    // Two rows at one address are two calls. The code of one is gone.
    const auto repeated = std::ranges::unique(found.addresses);
    found.is_known = repeated.empty();
    found.addresses.erase(repeated.begin(), repeated.end());
    // The first instruction of the copy has been moved away.
    if (entry && !contains(ranges, *entry))
      found.addresses.insert(std::ranges::lower_bound(found.addresses, *entry), *entry);
    return found;
  }
  found.is_known = entry || (marks_.empty() && ranges.size() == 1);
  if (!entry && !ranges.empty())
    if (const LineIndex* const lines = context_.line_index(*unit_))
      entry = first_statement(*lines, ranges);
  if (!entry && !ranges.empty())
    entry = std::ranges::min(ranges, {}, &llvm::DWARFAddressRange::LowPC).LowPC;
  if (entry) found.addresses.push_back(*entry);
  return found;
}

} // namespace uprobectl::dwarf
