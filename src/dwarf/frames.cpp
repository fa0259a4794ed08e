// SPDX-License-Identifier: Apache-2.0
#include "dwarf/frames.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/line_table.hpp"
#include "dwarf/positions.hpp"

namespace uprobectl::dwarf {

namespace {

constexpr std::size_t max_parents = 4096; // entries between an inlined function and its caller

std::uint32_t number_of(const Die& die, Attribute attribute) {
  return static_cast<std::uint32_t>(unsigned_constant(die, attribute).value_or(0));
}

} // namespace

void Positions::set_from_address(SourceFrame& frame, VirtualAddress address) const {
  const LineIndex* const lines = context_.line_index(unit_);
  const LineIndex::Row* const row = lines != nullptr ? lines->at(address) : nullptr;
  if (row == nullptr) return;
  frame.file = context_.line_table(unit_)->written_path(row->file);
  frame.line = row->line;
  frame.column = row->column;
}

void Positions::set_from_call(SourceFrame& frame, const Die& inlined) const {
  using namespace llvm::dwarf;
  const auto file = unsigned_constant(inlined, DW_AT_call_file);
  const LineTable* const table = file ? context_.line_table(unit_) : nullptr;
  frame.file = table != nullptr ? table->written_path(*file) : std::string();
  frame.line = number_of(inlined, DW_AT_call_line);
  frame.column = number_of(inlined, DW_AT_call_column);
}

std::vector<Die> inline_chain(Die die) {
  std::vector<Die> chain;
  for (std::size_t i = 0; die && i < max_parents && chain.size() < max_source_frames; ++i) {
    if (die.isSubroutineDIE()) chain.push_back(die);
    if (die.isSubprogramDIE()) break;
    die = die.getParent();
  }
  return chain;
}

std::vector<SourceFrame> frames_at(const DebugInfo& debug, VirtualAddress address) {
  Context& context = debug.context();
  llvm::DWARFUnit* const unit = context.unit_at(address);
  if (unit == nullptr) return {};
  const Positions positions(context, *unit);
  const std::vector<Die> chain = inline_chain(context.innermost_function_at(*unit, address));
  std::vector<SourceFrame> frames(std::max<std::size_t>(chain.size(), 1));
  positions.set_from_address(frames.front(), address);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (i > 0) positions.set_from_call(frames[i], chain[i - 1]);
    frames[i].function = context.linkage_name(chain[i]).value_or("");
    frames[i].is_inlined = !chain[i].isSubprogramDIE();
    if (!frames[i].is_inlined)
      if (const auto entry = entry_address(context, chain[i], address_ranges(context, chain[i]));
          entry && *entry <= address.value)
        frames[i].offset = address.value - *entry;
  }
  if (chain.empty() && frames.front().file.empty()) return {};
  return frames;
}

} // namespace uprobectl::dwarf
