// SPDX-License-Identifier: Apache-2.0
// An ELF file with debug information. Functions are described with their parameters, types and
// locations.
#include "dwarf/context.hpp"
#include "dwarf/functions.hpp"
#include "dwarf/prologue.hpp"

#include <cstdlib>

using namespace uprobectl;

namespace {

// Reads what a type leads to.
void visit_type(const dwarf::Type& type, int depth) {
  if (depth > 4) return;
  if (type.name().size() > (1U << 24)) std::abort();
  if (const dwarf::Type* const target = type.target()) visit_type(*target, depth + 1);
  std::size_t count = 0;
  for (const dwarf::Member& member : type.members()) {
    if (member.type == nullptr || (member.bits && member.bits->size > 64)) std::abort();
    if (++count <= 20) visit_type(*member.type, depth + 1);
  }
  static_cast<void>(type.enumerators().size());
  static_cast<void>(type.is_passed_by_reference());
}

} // namespace

int fuzz_debug_info(const std::uint8_t* data, std::size_t size) {
  using namespace uprobectl::dwarf;
  const auto info = DebugInfo::parse(std::as_bytes(std::span(data, size)));
  if (!info) return 0;
  const ArchInfo& arch = info->context().layout().machine.info();
  std::size_t described = 0;
  std::size_t units = 0;
  for (const auto& unit : info->context().dwarf().compile_units()) {
    if (++units > 4) break;
    llvm::DWARFUnit* const entries = info->context().with_entries(unit.get());
    for (unsigned i = 0; entries != nullptr && i < entries->getNumDIEs() && described < 50; ++i) {
      const Die die = entries->getDIEAtIndex(i);
      if (die.getTag() != llvm::dwarf::DW_TAG_subprogram) continue;
      const auto address = llvm::dwarf::toAddress(die.find(llvm::dwarf::DW_AT_low_pc));
      if (!address) continue;
      if (const auto prologue = find_prologue(*info, {*address}))
        if (prologue->end.value - *address >= prologue->code.size) std::abort();
      for (const std::uint64_t offset : {0, 8}) {
        const auto function = describe_function(*info, {.address = {*address + offset}});
        if (!function) continue;
        ++described;
        for (const Variable& variable : function->variables) {
          if (variable.location.is_readable() == !variable.location.problem.empty()) std::abort();
          if (to_string(variable.location, arch).empty()) std::abort();
          visit_type(*variable.type, 0);
        }
        visit_type(*function->result, 0);
      }
    }
  }
  return 0;
}
