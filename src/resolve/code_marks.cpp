#include "resolve/code_marks.hpp"

#include "symbols/code.hpp"

#include <algorithm>

namespace uprobectl {

CodeMarks::CodeMarks(const elf::Image& image) {
  const auto read = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      const auto symbol = table.at(index);
      if (symbol && symbol->defined && is_mapping_symbol(*symbol, image.machine()))
        marks_.push_back({.address = symbol->address, .data = symbol->name[1] == 'd'});
    }
  };
  if (const auto table = image.full_symbols()) read(*table);
  for (const elf::SymbolTable& table : image.debug_symbols()) read(table);
  std::ranges::sort(marks_, {}, &Mark::address);
}

std::optional<CodeMarks::Mark> CodeMarks::last_before(VirtualAddress address) const {
  const auto after = std::ranges::upper_bound(marks_, address, {}, &Mark::address);
  if (after == marks_.begin()) return std::nullopt;
  return *std::prev(after);
}

} // namespace uprobectl
