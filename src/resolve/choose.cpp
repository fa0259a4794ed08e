#include "resolve/choose.hpp"

#include <algorithm>
#include <tuple>

namespace uprobectl {

namespace {

bool is_code(const elf::Symbol& symbol) {
  const SymbolKind kind = kind_of(symbol);
  return kind == SymbolKind::function || kind == SymbolKind::ifunc || kind == SymbolKind::label;
}

int rank(elf::Binding binding) {
  switch (binding) {
  case elf::Binding::global:
    return 0;
  case elf::Binding::weak:
    return 1;
  case elf::Binding::local:
    return 2;
  }
  return 2;
}

bool is_hidden(const elf::Symbol& symbol) { return symbol.version && !symbol.version->is_default; }

auto preference(const elf::Symbol& symbol) {
  return std::tuple(symbol.table, rank(symbol.binding), is_hidden(symbol), symbol.name);
}

} // namespace

std::vector<elf::Symbol> choose(const std::vector<elf::Symbol>& symbols, bool bare) {
  std::vector<elf::Symbol> chosen;
  std::ranges::copy_if(symbols, std::back_inserter(chosen), is_code);
  if (bare && !std::ranges::all_of(chosen, is_hidden)) std::erase_if(chosen, is_hidden);
  if (chosen.empty()) return chosen;
  const int best = rank(std::ranges::min(chosen, {}, [](const elf::Symbol& symbol) {
                          return rank(symbol.binding);
                        }).binding);
  std::erase_if(chosen, [&](const elf::Symbol& symbol) { return rank(symbol.binding) != best; });
  return chosen;
}

std::vector<elf::Symbol> places_of(const std::vector<elf::Symbol>& symbols) {
  std::vector<elf::Symbol> places = symbols;
  std::ranges::sort(places, [](const elf::Symbol& a, const elf::Symbol& b) {
    return std::tuple(a.address, preference(a)) < std::tuple(b.address, preference(b));
  });
  const auto repeated = std::ranges::unique(places, {}, &elf::Symbol::address);
  places.erase(repeated.begin(), repeated.end());
  return places;
}

} // namespace uprobectl
