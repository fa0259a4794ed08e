// SPDX-License-Identifier: Apache-2.0
#include "dwarf/prologue.hpp"

#include "dwarf/attributes.hpp"
#include "dwarf/line_table.hpp"

namespace uprobectl::dwarf {

namespace {

using namespace llvm::dwarf;

constexpr int max_label_depth = 64;           // of blocks
constexpr std::size_t max_label_scan = 65536; // entries

// gcc writes its options into DW_AT_producer. LLVM describes the calls of optimized functions only
// (DwarfCompileUnit.cpp, DW_AT_call_all_calls).
bool is_optimized(Context& context, const Die& function) {
  const std::string_view producer =
      context.text(function.getDwarfUnit()->getUnitDIE(), DW_AT_producer).value_or("");
  if (!producer.starts_with("GNU "))
    return function.find({DW_AT_call_all_calls, DW_AT_GNU_all_call_sites}).has_value();
  constexpr std::string_view option = " -O"; // the last one counts
  const auto at = producer.rfind(option);
  return at != std::string_view::npos && !producer.substr(at + option.size()).starts_with('0');
}

bool has_label(const Die& scope, VirtualAddress entry, VirtualAddress end, int depth,
               std::size_t& left) {
  for (const Die& child : scope.children()) {
    if (left == 0 || depth > max_label_depth) return true;
    --left;
    if (child.getTag() == DW_TAG_label) {
      const auto address = toAddress(child.find(DW_AT_low_pc));
      if (address && *address > entry.value && *address <= end.value) return true;
    }
    if (child.getTag() == DW_TAG_lexical_block && has_label(child, entry, end, depth + 1, left))
      return true;
  }
  return false;
}

bool has_location_list(const Die& parameter) {
  const auto location = parameter.find(DW_AT_location);
  return location && !location->isFormClass(llvm::DWARFFormValue::FC_Exprloc) &&
         !location->isFormClass(llvm::DWARFFormValue::FC_Block);
}

void add_parameters(const Die& scope, std::vector<bool>& lists) {
  for (const Die& child : scope.children()) {
    if (child.getTag() == DW_TAG_GNU_formal_parameter_pack && scope.isSubprogramDIE())
      add_parameters(child, lists);
    if (child.getTag() == DW_TAG_formal_parameter) lists.push_back(has_location_list(child));
  }
}

} // namespace

std::expected<Prologue, std::string_view> find_prologue(const DebugInfo& info,
                                                        VirtualAddress function) {
  Context& context = info.context();
  const Die die = context.function_at(function);
  if (!die) return std::unexpected("its unit has no debug information");
  const llvm::DWARFAddressRangesVector ranges = address_ranges(context, die);
  if (ranges.size() != 1 || ranges.front().LowPC != function.value)
    return std::unexpected("its code is in several pieces");
  if (is_optimized(context, die)) return std::unexpected("it is optimized");
  const LineIndex* const lines = context.line_index(*die.getDwarfUnit());
  if (lines == nullptr) return std::unexpected("it has no source lines");
  const std::uint64_t begin = ranges.front().LowPC;
  const std::uint64_t end = ranges.front().HighPC;
  auto after = lines->first_prologue_end(begin, end);
  if (!after) after = lines->first_statement(begin + 1, end);
  if (!after || *after == begin) return std::unexpected("it has no prologue");
  Prologue found{.end = {*after}, .code = {function, end - begin}, .has_location_list = {}};
  add_parameters(die, found.has_location_list);
  std::size_t left = max_label_scan;
  if (has_label(die, function, found.end, 0, left))
    return std::unexpected("a label may lead to the end of its prologue");
  return found;
}

} // namespace uprobectl::dwarf
