// SPDX-License-Identifier: Apache-2.0
#include "dwarf/scopes.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::dwarf {

namespace {

// Ranges and addresses that are examined for each entry and each address, on average. Bounds the
// time for entries that share long range lists. Compilers need fewer than ten.
constexpr std::size_t max_steps = 64;

llvm::DWARFAddressRangesVector address_ranges(const Die& die) {
  auto ranges = die.getAddressRanges();
  if (ranges) return std::move(*ranges);
  llvm::consumeError(ranges.takeError());
  return {};
}

} // namespace

std::vector<Scopes> scopes_at(Context& context, llvm::DWARFUnit& unit,
                              std::span<const std::uint64_t> addresses) {
  std::vector<Scopes> scopes(addresses.size());
  llvm::DWARFUnit* const entries = context.with_entries(&unit);
  if (entries == nullptr || addresses.empty()) return scopes;
  const unsigned count = entries->getNumDIEs();
  std::size_t steps = max_steps * (count + addresses.size());
  unsigned without_address = 0; // entries before this one are in a function without an address
  for (unsigned i = 1; i < count; ++i) {
    const Die die = entries->getDIEAtIndex(i);
    const auto tag = die.getTag();
    const bool is_function = tag == llvm::dwarf::DW_TAG_subprogram;
    if (!is_function && (tag != llvm::dwarf::DW_TAG_inlined_subroutine || i < without_address))
      continue;
    bool contains = false;
    const auto ranges = address_ranges(die);
    for (const llvm::DWARFAddressRange& range : ranges) {
      auto at = std::ranges::lower_bound(addresses, range.LowPC);
      for (; at != addresses.end() && *at < range.HighPC; ++at) {
        if (steps == 0) break;
        --steps;
        Scopes& containing = scopes[static_cast<std::size_t>(at - addresses.begin())];
        if (containing.empty() || containing.back() != die) containing.push_back(die);
        contains = true;
      }
    }
    if (steps <= ranges.size()) {
      context.warn(
          fmt::format("the unit at {:#x} has too many overlapping ranges", unit.getOffset()));
      return scopes;
    }
    steps -= ranges.size();
    if (contains || !is_function) continue;
    if (const Die next = die.getSibling()) without_address = entries->getDIEIndex(next);
  }
  return scopes;
}

std::optional<std::uint64_t> entry_address(const Die& die) {
  const auto ranges = address_ranges(die);
  if (const auto entry = die.find(llvm::dwarf::DW_AT_entry_pc)) {
    if (const auto address = llvm::dwarf::toAddress(entry)) return address;
    // As an offset from the start of the scope (DWARF 5, 2.18).
    const auto offset = llvm::dwarf::toUnsigned(entry);
    const auto start = llvm::dwarf::toAddress(die.find(llvm::dwarf::DW_AT_low_pc));
    if (offset && start) return *start + *offset;
    if (offset && !ranges.empty()) return ranges.front().LowPC + *offset;
  }
  if (ranges.empty()) return std::nullopt;
  return ranges.front().LowPC;
}

} // namespace uprobectl::dwarf
