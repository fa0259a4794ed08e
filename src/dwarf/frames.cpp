// SPDX-License-Identifier: Apache-2.0
#include "dwarf/frames.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/positions.hpp"

namespace uprobectl::dwarf {

namespace {

using PathKind = llvm::DILineInfoSpecifier::FileLineInfoKind;

constexpr std::size_t max_parents = 4096; // entries between an inlined function and its caller

std::uint32_t number_of(const Die& die, Attribute attribute) {
  return static_cast<std::uint32_t>(unsigned_constant(die, attribute).value_or(0));
}

} // namespace

void Positions::set_from_address(SourceFrame& frame, VirtualAddress address) const {
  llvm::DILineInfo info;
  if (table_ == nullptr ||
      !table_->getFileLineInfoForAddress(
          {.Address = address.value, .SectionIndex = llvm::object::SectionedAddress::UndefSection},
          folder_, PathKind::AbsoluteFilePath, info))
    return;
  if (info.FileName != llvm::DILineInfo::BadString) frame.file = std::move(info.FileName);
  frame.line = info.Line;
  frame.column = info.Column;
}

void Positions::set_from_call(SourceFrame& frame, const Die& inlined) const {
  using namespace llvm::dwarf;
  const auto file = unsigned_constant(inlined, DW_AT_call_file);
  if (!file || table_ == nullptr ||
      !table_->getFileNameByIndex(*file, folder_ == nullptr ? "" : folder_,
                                  PathKind::AbsoluteFilePath, frame.file))
    frame.file.clear();
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
  }
  if (chain.empty() && frames.front().file.empty()) return {};
  return frames;
}

} // namespace uprobectl::dwarf
