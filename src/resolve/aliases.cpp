#include "resolve/aliases.hpp"

namespace uprobectl {

void add_aliases(const elf::Image& image, std::span<ProbePoint> points) {
  const auto symbols = list_symbols(image, {});
  for (ProbePoint& point : points) {
    if (!symbols || !point.symbol || point.kind == SymbolKind::method) continue;
    const VirtualAddress start{point.address.value - point.symbol_offset};
    point.aliases = symbols->aliases(start, *point.symbol);
  }
}

} // namespace uprobectl
