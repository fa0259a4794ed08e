// SPDX-License-Identifier: Apache-2.0
// Finds the symbol that covers an address: symbol_at() scans all tables, SymbolFinder uses a sorted
// index. Both follow the same rules.
#include "elf/prefetch.hpp"
#include "symbols/classify.hpp"
#include "symbols/list.hpp"
#include "symbols/plt.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace uprobectl::symbols {

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

// The sort key of symbols at one address: the lowest is preferred, and among equal ones the first
// of the table, as in unwinders. Old versions are used only by programs that were linked to them.
auto preference(const elf::Symbol& symbol) {
  const bool is_old_version = symbol.version && !symbol.version->is_default;
  return std::tuple(-rank(symbol.binding), symbol.table, is_old_version);
}

// Returns the tables in preference order, with those of debug files unless .symtab is whole.
std::vector<elf::SymbolTable> lookup_tables(const elf::Image& image) {
  std::vector<elf::SymbolTable> tables;
  if (auto table = image.dynamic_symbols()) tables.push_back(*table);
  if (auto table = image.full_symbols()) tables.push_back(*table);
  if (!has_whole_symtab(image))
    for (const elf::SymbolTable& table : image.debug_symbols()) tables.push_back(table);
  return tables;
}

// Selects the preferred one of the symbols that start closest below an address.
class ClosestSymbol {
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

// Returns where the next section of code begins, if it is known: a symbol without a size ends
// there.
std::optional<VirtualAddress> next_section(const elf::Image& image, VirtualAddress symbol) {
  constexpr std::array<std::string_view, 6> names = {".init",    ".plt",  ".plt.got",
                                                     ".plt.sec", ".text", ".fini"};
  std::optional<VirtualAddress> next;
  for (const std::string_view name : names)
    if (const auto begin = image.section_address(name);
        begin && symbol < *begin && (!next || *begin < *next))
      next = begin;
  return next;
}

bool has_section_between(const elf::Image& image, VirtualAddress symbol, VirtualAddress address) {
  const auto next = next_section(image, symbol);
  return next && *next <= address;
}

// Limits the index entries examined before an address, and at one address.
constexpr std::size_t max_examined = 256;

} // namespace

// One pass over all tables: 3 ms for the 45,000 symbols of libLLVM 14.
std::optional<SymbolAt> symbol_at(const elf::Image& image, VirtualAddress address) {
  if (image.is_debug_file()) return SymbolFinder(image).at(address);
  const elf::Segment* segment = image.find_segment(address);
  if (segment == nullptr) return std::nullopt;
  ClosestSymbol covering; // sized symbols that contain the address
  ClosestSymbol unsized;  // extend up to the next symbol of any kind in their section
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
  for (const elf::SymbolTable& table : lookup_tables(image)) consider(table);

  if (!covering.best())
    if (const auto entry = plt_entry_at(image, address))
      return SymbolAt{*entry, address.value - entry->address.value};
  const auto& best = covering.best() ? covering.best() : unsized.best();
  if (!best) return std::nullopt;
  if (best->size == 0 &&
      (best->address < last_end || has_section_between(image, best->address, address)))
    return std::nullopt;
  return SymbolAt{*best, address.value - best->address.value};
}

SymbolFinder::SymbolFinder(const elf::Image& image)
    : image_(image), is_debug_file_(image.is_debug_file()), tables_(lookup_tables(image)) {
  const auto is_found = [&](const elf::Symbol& symbol) {
    return is_code(symbol, image) || (is_debug_file_ && symbol.defined && !symbol.absolute &&
                                      is_typed_code(symbol) && !symbol.name.empty());
  };
  for (std::uint16_t number = 0; number < tables_.size(); ++number) {
    const elf::SymbolTable& table = tables_[number];
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      constexpr std::uint32_t read_ahead = 16; // symbols
      elf::Prefetch::name(table, index + read_ahead);
      const auto symbol = table.at(index);
      if (symbol && is_found(*symbol))
        entries_.push_back({.address = symbol->address, .index = index, .table = number});
    }
  }
  sort_by_address(entries_);
  max_ends_.reserve(entries_.size());
  std::uint64_t max_end = 0;
  for (const SymbolList::Entry& entry : entries_) {
    const elf::Symbol symbol = read(entry);
    max_end = std::max(max_end, checked_add(symbol.address.value, symbol.size).value_or(0));
    max_ends_.push_back(max_end);
  }
}

elf::Symbol SymbolFinder::read(const SymbolList::Entry& entry) const {
  return tables_[entry.table].at(entry.index).value_or(elf::Symbol());
}

std::optional<SymbolAt> SymbolFinder::at(VirtualAddress address) {
  const elf::Segment* const segment = image_.find_segment(address);
  if (segment == nullptr && !is_debug_file_) return std::nullopt;
  const VirtualAddress lowest = is_debug_file_ ? VirtualAddress() : segment->address;
  const auto following =
      std::ranges::upper_bound(entries_, address, {}, &SymbolList::Entry::address);
  const auto end = static_cast<std::size_t>(following - entries_.begin());

  const std::size_t last = end > max_examined ? end - max_examined : 0;

  ClosestSymbol covering;
  for (std::size_t i = end; i-- > last && max_ends_[i] > address.value;) {
    if (entries_[i].address < lowest) break;
    if (covering.best() && entries_[i].address < covering.best()->address) break;
    const elf::Symbol symbol = read(entries_[i]);
    if (address.value - symbol.address.value < symbol.size) covering.offer_previous(symbol);
  }
  std::optional<elf::Symbol> best = covering.best();
  if (!best) best = stub_at(address);
  // A label extends up to the next symbol of any kind, in its section.
  const VirtualAddress begin = end > 0 ? entries_[end - 1].address : VirtualAddress();
  if (!best && end > 0 && begin >= lowest && begin.value >= max_ends_[end - 1]) {
    ClosestSymbol unsized;
    for (std::size_t i = end; i-- > last && entries_[i].address == begin;)
      if (const elf::Symbol symbol = read(entries_[i]); symbol.size == 0)
        unsized.offer_previous(symbol);
    if (!has_section_between(image_, begin, address)) best = unsized.best();
  }
  if (!best) return std::nullopt;
  return SymbolAt{*best, address.value - best->address.value};
}

std::optional<VirtualAddress> SymbolFinder::label_end(VirtualAddress label) {
  const auto found = at(label);
  const elf::Segment* const segment = image_.find_segment(label);
  if (!found || found->offset != 0 || segment == nullptr) return std::nullopt;
  if (found->symbol.size != 0) return VirtualAddress{label.value + found->symbol.size};
  VirtualAddress end{segment->address.value + segment->file_size};
  const auto next = std::ranges::upper_bound(entries_, label, {}, &SymbolList::Entry::address);
  if (next != entries_.end()) end = std::min(end, next->address);
  const auto section = next_section(image_, label);
  return section ? std::min(end, *section) : end;
}

std::optional<elf::Symbol> SymbolFinder::stub_at(VirtualAddress address) {
  if (is_debug_file_) return std::nullopt;
  if (!stubs_) stubs_ = plt_entries(image_);
  const auto after = std::ranges::upper_bound(*stubs_, address, {}, &elf::Symbol::address);
  if (after == stubs_->begin()) return std::nullopt;
  const elf::Symbol& stub = *std::prev(after);
  if (address.value - stub.address.value >= stub.size) return std::nullopt;
  return stub;
}

} // namespace uprobectl::symbols
