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

std::vector<elf::Symbol> choose(std::vector<elf::Symbol> symbols, bool bare) {
  std::erase_if(symbols, [](const elf::Symbol& symbol) { return !is_code(symbol); });
  if (bare && !std::ranges::all_of(symbols, is_hidden)) std::erase_if(symbols, is_hidden);
  if (symbols.empty()) return symbols;
  const int best = rank(std::ranges::min(symbols, {}, [](const elf::Symbol& symbol) {
                          return rank(symbol.binding);
                        }).binding);
  std::erase_if(symbols, [&](const elf::Symbol& symbol) { return rank(symbol.binding) != best; });
  return symbols;
}

std::vector<elf::Symbol> places_of(std::vector<elf::Symbol> symbols) {
  std::ranges::sort(symbols, [](const elf::Symbol& a, const elf::Symbol& b) {
    return std::tuple(a.address, preference(a)) < std::tuple(b.address, preference(b));
  });
  const auto repeated = std::ranges::unique(symbols, {}, &elf::Symbol::address);
  symbols.erase(repeated.begin(), repeated.end());
  return symbols;
}

} // namespace uprobectl
