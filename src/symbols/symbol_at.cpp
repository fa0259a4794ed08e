// SPDX-License-Identifier: Apache-2.0
// Finds the symbol that covers an address: symbol_at() scans all tables, SymbolFinder uses a sorted
// index. Both follow the same rules.
#include "elf/prefetch.hpp"
#include "symbols/classify.hpp"
#include "symbols/list.hpp"
#include "symbols/plt.hpp"

#include <algorithm>
#include <tuple>

namespace uprobectl {

namespace {

int rank(elf::Binding binding) {
  switch (binding) {
  case elf::Binding::global:
    return 2;
  case elf::Binding::weak:
    return 1;
  case elf::Binding::local:
    return 0;
  }
  return 0;
}

// The least of the names of one address is preferred; equal ones in the order of the table, as in
// unwinders. Old versions only serve programs that were linked to them.
auto preference(const elf::Symbol& symbol) {
  const bool is_old_version = symbol.version && !symbol.version->is_default;
  return std::tuple(-rank(symbol.binding), symbol.table, is_old_version);
}

// In order of preference; includes those of debug files if the image has no .symtab.
std::vector<elf::SymbolTable> tables_of(const elf::Image& image) {
  std::vector<elf::SymbolTable> tables;
  if (auto table = image.dynamic_symbols()) tables.push_back(*table);
  const auto full = image.full_symbols();
  if (full) tables.push_back(*full);
  if (!full || full->size() == 0)
    for (const elf::SymbolTable& table : image.debug_symbols()) tables.push_back(table);
  return tables;
}

// The best of those that start closest below the address.
class Closest {
public:
  // Called in the order of the tables.
  void offer_next(const elf::Symbol& symbol) {
    if (!best_ || symbol.address > best_->address ||
        (symbol.address == best_->address && preference(symbol) < preference(*best_)))
      best_ = symbol;
  }
  // Called in reverse order.
  void offer_previous(const elf::Symbol& symbol) {
    if (!best_ || symbol.address > best_->address ||
        (symbol.address == best_->address && !(preference(*best_) < preference(symbol))))
      best_ = symbol;
  }
  const std::optional<elf::Symbol>& best() const { return best_; }

private:
  std::optional<elf::Symbol> best_;
};

// Limits the index entries examined before an address, and at one address.
constexpr std::size_t max_examined = 256;

} // namespace

// One pass over all tables: 3 ms for the 45,000 symbols of libLLVM 14.
std::optional<SymbolAt> symbol_at(const elf::Image& image, VirtualAddress address) {
  const elf::Segment* segment = image.find_segment(address);
  if (segment == nullptr) return std::nullopt;
  Closest covering; // sized, and the address is inside
  Closest unsized;  // extend up to the next symbol of any kind
  VirtualAddress last_end{segment->address};
  const auto consider = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      const auto symbol = table.at(index);
      if (!symbol || symbol->address > address || symbol->address < segment->address) continue;
      if (!is_code(*symbol, image)) continue;
      const std::uint64_t distance = address.value - symbol->address.value;
      if (symbol->size == 0)
        unsized.offer_next(*symbol);
      else if (distance < symbol->size)
        covering.offer_next(*symbol);
      else
        last_end = std::max(last_end, VirtualAddress{symbol->address.value + symbol->size});
    }
  };
  for (const elf::SymbolTable& table : tables_of(image)) consider(table);

  if (!covering.best())
    if (const auto entry = plt_entry_at(image, address))
      return SymbolAt{*entry, address.value - entry->address.value};
  const auto& best = covering.best() ? covering.best() : unsized.best();
  if (!best) return std::nullopt;
  if (best->size == 0 && best->address < last_end) return std::nullopt;
  return SymbolAt{*best, address.value - best->address.value};
}

SymbolFinder::SymbolFinder(const elf::Image& image) : image_(image), tables_(tables_of(image)) {
  for (std::uint16_t number = 0; number < tables_.size(); ++number) {
    const elf::SymbolTable& table = tables_[number];
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      constexpr std::uint32_t read_ahead = 16; // symbols
      elf::Prefetch::name(table, index + read_ahead);
      const auto symbol = table.at(index);
      if (symbol && is_code(*symbol, image))
        places_.push_back({.address = symbol->address, .index = index, .table = number});
    }
  }
  sort_by_address(places_);
  reach_.reserve(places_.size());
  std::uint64_t reach = 0;
  for (const SymbolList::Place& place : places_) {
    const elf::Symbol symbol = read(place);
    reach = std::max(reach, checked_add(symbol.address.value, symbol.size).value_or(0));
    reach_.push_back(reach);
  }
}

elf::Symbol SymbolFinder::read(const SymbolList::Place& place) const {
  return tables_[place.table].at(place.index).value_or(elf::Symbol());
}

std::optional<SymbolAt> SymbolFinder::at(VirtualAddress address) {
  const elf::Segment* const segment = image_.find_segment(address);
  if (segment == nullptr) return std::nullopt;
  const auto after = std::ranges::upper_bound(places_, address, {}, &SymbolList::Place::address);
  const auto behind = static_cast<std::size_t>(after - places_.begin());

  const std::size_t last = behind > max_examined ? behind - max_examined : 0;

  Closest covering;
  for (std::size_t i = behind; i-- > last && reach_[i] > address.value;) {
    if (places_[i].address < segment->address) break;
    if (covering.best() && places_[i].address < covering.best()->address) break;
    const elf::Symbol symbol = read(places_[i]);
    if (address.value - symbol.address.value < symbol.size) covering.offer_previous(symbol);
  }
  std::optional<elf::Symbol> best = covering.best();
  if (!best) best = stub_at(address);
  // A label extends up to the next symbol of any kind.
  const VirtualAddress begin = behind > 0 ? places_[behind - 1].address : VirtualAddress();
  if (!best && behind > 0 && begin >= segment->address && begin.value >= reach_[behind - 1]) {
    Closest unsized;
    for (std::size_t i = behind; i-- > last && places_[i].address == begin;)
      if (const elf::Symbol symbol = read(places_[i]); symbol.size == 0)
        unsized.offer_previous(symbol);
    best = unsized.best();
  }
  if (!best) return std::nullopt;
  return SymbolAt{*best, address.value - best->address.value};
}

std::optional<elf::Symbol> SymbolFinder::stub_at(VirtualAddress address) {
  if (!stubs_) stubs_ = plt_entries(image_);
  const auto after = std::ranges::upper_bound(*stubs_, address, {}, &elf::Symbol::address);
  if (after == stubs_->begin()) return std::nullopt;
  const elf::Symbol& stub = *std::prev(after);
  if (address.value - stub.address.value >= stub.size) return std::nullopt;
  return stub;
}

} // namespace uprobectl
