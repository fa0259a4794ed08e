#include "symbols/order.hpp"
#include "symbols/plt.hpp"
#include "symbols/sort_by_address.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

constexpr std::size_t reading_ahead = 16; // symbols

} // namespace

SymbolList::SymbolList(std::vector<elf::SymbolTable> tables, std::vector<Place> places)
    : tables_(std::move(tables)), places_(std::move(places)) {
  sort_without_repeats();
}

// Few addresses have several symbols. Only these are read, as only there it takes more than the
// address to tell which comes first.
void SymbolList::sort_without_repeats() {
  sort_by_address(places_);
  std::vector<Place> shared;
  std::vector<elf::Symbol> symbols;
  std::size_t kept = 0;
  for (std::size_t begin = 0, end = 0; begin < places_.size(); begin = end) {
    while (end < places_.size() && places_[end].address == places_[begin].address) ++end;
    if (end == begin + 1) {
      places_[kept++] = places_[begin];
      continue;
    }
    shared.clear();
    symbols.clear();
    for (std::size_t i = begin; i < end; ++i) {
      shared.push_back(places_[i]);
      symbols.push_back((*this)[i]);
    }
    for (const std::size_t i : order_without_repeats(symbols)) places_[kept++] = shared[i];
  }
  places_.resize(kept);
}

// An entry that was there is there, unless somebody writes into the file meanwhile.
elf::Symbol SymbolList::operator[](std::size_t index) const {
  const Place& place = places_[index];
  const auto symbol = tables_[place.table].at(place.index).value_or(elf::Symbol());
  if (place.stub_size == 0) return symbol;
  return plt_symbol(symbol, {place.address, place.stub_size, place.index});
}

std::string_view SymbolList::name(std::size_t index) const {
  const Place& place = places_[index];
  return tables_[place.table].name(place.index).value_or(std::string_view());
}

void SymbolList::expect(std::size_t index) const {
  if (index >= size()) return;
  tables_[places_[index].table].expect(places_[index].index);
  index += reading_ahead;
  if (index < size()) tables_[places_[index].table].expect_entry(places_[index].index);
}

SymbolList::Iterator& SymbolList::Iterator::operator++() {
  list_->expect(++index_ + reading_ahead);
  return *this;
}

SymbolList::Iterator SymbolList::Iterator::operator++(int) {
  const Iterator before = *this;
  ++*this;
  return before;
}

std::vector<std::string> SymbolList::aliases(VirtualAddress address, std::string_view own) const {
  std::vector<std::string> names;
  const auto found = std::ranges::equal_range(places_, address, {}, &Place::address);
  const auto begin = static_cast<std::size_t>(found.begin() - places_.begin());
  for (std::size_t i = begin; i < begin + found.size(); ++i) {
    const elf::Symbol symbol = (*this)[i];
    if (symbol.name != own && (names.empty() || names.back() != symbol.name))
      names.emplace_back(symbol.name);
  }
  return names;
}

} // namespace uprobectl
