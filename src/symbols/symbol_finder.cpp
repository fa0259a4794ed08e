#include "symbols/code.hpp"
#include "symbols/sort_by_address.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

// So many functions may begin between an address and the begin of the one that covers it, or in one
// place.
constexpr std::size_t most_looked_at = 256;

} // namespace

SymbolFinder::SymbolFinder(const elf::Image& image) : image_(image) {
  if (auto table = image.dynamic_symbols()) tables_.push_back(*table);
  if (auto table = image.full_symbols()) tables_.push_back(*table);
  for (const elf::SymbolTable& table : image.debug_symbols()) tables_.push_back(table);
  for (std::uint16_t number = 0; number < tables_.size(); ++number) {
    const elf::SymbolTable& table = tables_[number];
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      constexpr std::uint32_t reading_ahead = 16; // symbols
      table.expect(index + reading_ahead);
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

// Of those that begin closest below the address the first that fits: they are in the order of the
// tables.
std::optional<SymbolAt> SymbolFinder::at(VirtualAddress address) {
  const elf::Segment* const segment = image_.segment_of(address);
  if (segment == nullptr) return std::nullopt;
  const auto after = std::ranges::upper_bound(places_, address, {}, &SymbolList::Place::address);
  const auto behind = static_cast<std::size_t>(after - places_.begin());

  const std::size_t last = behind > most_looked_at ? behind - most_looked_at : 0;

  std::optional<elf::Symbol> best;
  for (std::size_t i = behind; i-- > last && reach_[i] > address.value;) {
    if (places_[i].address < segment->address) break;
    if (best && places_[i].address < best->address) break;
    const elf::Symbol symbol = read(places_[i]);
    if (address.value - symbol.address.value < symbol.size) best = symbol;
  }
  if (!best) best = stub_at(address);
  // A label reaches up to the next symbol, whatever that is.
  const VirtualAddress begin = behind > 0 ? places_[behind - 1].address : VirtualAddress();
  if (!best && behind > 0 && begin >= segment->address && begin.value >= reach_[behind - 1]) {
    for (std::size_t i = behind; i-- > last && places_[i].address == begin;)
      if (const elf::Symbol symbol = read(places_[i]); symbol.size == 0) best = symbol;
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
