// SPDX-License-Identifier: Apache-2.0
#include "symbolize/debug_file_symbols.hpp"

#include <algorithm>
#include <tuple>

namespace uprobectl::symbolize {

namespace {

int rank(elf::Binding binding) {
  if (binding == elf::Binding::global) return 0;
  return binding == elf::Binding::weak ? 1 : 2;
}

} // namespace

DebugFileSymbols::DebugFileSymbols(const elf::Image& image) {
  const auto table = image.full_symbols();
  if (!table) return;
  table_ = *table;
  for (std::uint32_t index = 1; index < table_.size(); ++index) {
    const auto symbol = table_.at(index);
    if (!symbol || !symbol->defined || symbol->absolute || symbol->name.empty()) continue;
    if (symbol->type != elf::SymbolType::function && symbol->type != elf::SymbolType::ifunc)
      continue;
    entries_.push_back({symbol->address, symbol->size, rank(symbol->binding), index, 0});
  }
  std::ranges::sort(entries_, {}, [](const Entry& entry) {
    return std::tuple(entry.address, -entry.rank, ~entry.index);
  });
  std::uint64_t max_end = 0;
  for (Entry& entry : entries_) {
    max_end = std::max(max_end, checked_add(entry.address.value, entry.size).value_or(0));
    entry.max_end = max_end;
  }
}

std::optional<SymbolAt> DebugFileSymbols::at(VirtualAddress address) const {
  constexpr std::ptrdiff_t max_examined = 256;
  const auto after = std::ranges::upper_bound(entries_, address, {}, &Entry::address);
  const auto first =
      after - entries_.begin() > max_examined ? after - max_examined : entries_.begin();
  const auto found = [&](const Entry& entry) -> std::optional<SymbolAt> {
    const auto symbol = table_.at(entry.index);
    if (!symbol) return std::nullopt;
    return SymbolAt{*symbol, address.value - entry.address.value};
  };
  for (auto at = after; at != first;) {
    const Entry& entry = *--at;
    if (address.value - entry.address.value < entry.size) return found(entry);
    if (entry.max_end <= address.value) break;
  }
  if (after == entries_.begin()) return std::nullopt;
  const Entry& last = *std::prev(after);
  if (last.size != 0 || last.max_end > address.value) return std::nullopt;
  return found(last);
}

} // namespace uprobectl::symbolize
