#include "symbols/order.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace uprobectl {

namespace {

std::string_view version_name(const elf::Symbol& symbol) {
  return symbol.version ? symbol.version->name : std::string_view();
}

bool is_same_place(const elf::Symbol& a, const elf::Symbol& b) {
  return a.address == b.address && a.name == b.name;
}

// Of symbols that repeat each other the first is kept: names without a version come last, so that
// by then it is known whether .dynsym has the place. The rest only makes the choice the same for
// any order of the tables.
bool comes_before(const elf::Symbol& a, const elf::Symbol& b) {
  if (a.address != b.address) return a.address < b.address;
  if (const int order = a.name.compare(b.name); order != 0) return order < 0;
  const auto rest = [](const elf::Symbol& s) {
    return std::tuple(!s.version, version_name(s), s.table, s.type == elf::SymbolType::none,
                      s.binding == elf::Binding::local, s.binding, s.type, s.size);
  };
  return rest(a) < rest(b);
}

} // namespace

std::vector<std::size_t> order_without_repeats(std::span<const elf::Symbol> symbols) {
  std::vector<std::size_t> order(symbols.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(
      order, [&](std::size_t a, std::size_t b) { return comes_before(symbols[a], symbols[b]); });
  std::size_t kept = 0;
  bool in_dynsym = false; // one that was kept at this place stands in .dynsym
  for (const std::size_t index : order) {
    const elf::Symbol& symbol = symbols[index];
    const elf::Symbol* last = kept > 0 ? &symbols[order[kept - 1]] : nullptr;
    if (last == nullptr || !is_same_place(*last, symbol)) {
      in_dynsym = false;
    } else {
      if (version_name(*last) == version_name(symbol)) continue;
      if (in_dynsym && !symbol.version && symbol.table != elf::Table::dynsym) continue;
    }
    in_dynsym = in_dynsym || symbol.table == elf::Table::dynsym;
    order[kept++] = index;
  }
  order.resize(kept);
  return order;
}

} // namespace uprobectl
