// SPDX-License-Identifier: Apache-2.0
#include "symbols/list.hpp"

#include "elf/prefetch.hpp"
#include "symbols/bodies.hpp"
#include "symbols/demangle.hpp"
#include "symbols/parallel.hpp"
#include "symbols/plt.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <numeric>
#include <tuple>

namespace uprobectl::symbols {

namespace {

std::string_view version_name(const elf::Symbol& symbol) {
  return symbol.version ? symbol.version->name : std::string_view();
}

bool is_repeated(const elf::Symbol& a, const elf::Symbol& b) {
  return a.address == b.address && a.name == b.name;
}

// The first of repeated symbols in this order is kept. Unversioned names come last, because they
// are dropped if .dynsym has the name. The other criteria make the result independent of table
// order.
bool comes_before(const elf::Symbol& a, const elf::Symbol& b) {
  if (a.address != b.address) return a.address < b.address;
  if (const int order = a.name.compare(b.name); order != 0) return order < 0;
  const auto rest = [](const elf::Symbol& s) {
    return std::tuple(!s.version, version_name(s), s.table, s.type == elf::SymbolType::none,
                      s.binding == elf::Binding::local, s.binding, s.type, s.size);
  };
  return rest(a) < rest(b);
}

constexpr std::size_t prefetch_distance = 16; // symbols

bool is_import(const elf::Symbol& symbol, const elf::Machine& machine) {
  const bool callable =
      symbol.type == elf::SymbolType::function || symbol.type == elf::SymbolType::none;
  return !symbol.defined && callable && is_named(symbol, machine);
}

bool is_data(const elf::Symbol& symbol, const elf::Machine& machine) {
  return symbol.defined && !symbol.absolute && symbol.type == elf::SymbolType::object &&
         is_named(symbol, machine);
}

// The kinds of symbols that a filter selects.
class KindSet {
public:
  explicit KindSet(const SymbolFilter& filter) {
    if (filter.imports) add(SymbolKind::import);
    for (const SymbolKind kind : filter.kinds) add(kind);
    if (bits_ == 0)
      for (const SymbolKind kind : {SymbolKind::function, SymbolKind::ifunc, SymbolKind::label})
        add(kind);
  }

  bool has(SymbolKind kind) const { return (bits_ & bit(kind)) != 0; }

  bool selects(const elf::Symbol& symbol, const elf::Image& image) const {
    const SymbolKind kind = symbol_kind(symbol);
    if (!has(kind)) return false;
    if (kind == SymbolKind::import) return is_import(symbol, image.machine());
    if (kind == SymbolKind::object) return is_data(symbol, image.machine());
    return is_code(symbol, image);
  }

private:
  static unsigned bit(SymbolKind kind) { return 1U << static_cast<unsigned>(kind); }
  void add(SymbolKind kind) { bits_ |= bit(kind); }

  unsigned bits_ = 0;
};

// Demangling takes one to two microseconds per name, so it is done only if the raw name does not
// match. `base`: the raw name without the suffixes of compilers.
bool matches_any(std::span<const std::string> patterns, std::string_view raw,
                 std::string_view base) {
  const auto any = [&](std::string_view name) {
    return std::ranges::any_of(
        patterns, [&](const std::string& pattern) { return matches_pattern(pattern, name); });
  };
  if (patterns.empty() || any(raw)) return true;
  const bool is_clone = base.size() < raw.size();
  // Cold parts are not the function: only a pattern that contains the suffix means them.
  const bool needs_suffix = is_clone && is_cold_part(raw);
  if (!looks_mangled(raw)) return is_clone && !needs_suffix && any(base);
  const auto parts = demangle_parts(base);
  if (!parts) return false;
  const auto whole = std::string_view(parts->whole).substr(name_begin(*parts));
  if (is_clone && any(fmt::format("{} ({})", whole, raw.substr(base.size())))) return true;
  return !needs_suffix && (any(whole) || (!parts->name.empty() && any(parts->name)));
}

// Returns the raw name without what may be suffixes; Bodies tells whether they are.
std::string_view possible_base(const elf::Symbol& symbol) {
  const std::string_view raw = symbol.name;
  if (!raw.contains('.')) return raw;
  if (const auto clone = parse_clone_name(raw)) return clone->base;
  const std::size_t dot = raw.find('.');
  const bool may_be = is_typed_code(symbol) && dot != 0 && !is_suffix(raw.substr(dot + 1));
  return may_be ? raw.substr(0, dot) : raw;
}

bool matches_filter(const elf::Symbol& symbol, const SymbolFilter& filter) {
  return symbol.size >= filter.min_size &&
         matches_any(filter.patterns, symbol.name, possible_base(symbol));
}

// Collects the symbols that a filter selects.
class SymbolCollector {
public:
  SymbolCollector(const elf::Image& image, const SymbolFilter& filter)
      : image_(image), filter_(filter), kinds_(filter) {}

  bool is_empty() const { return entries_.empty(); }

  Result<void> add_own() {
    const auto dynamic = image_.dynamic_symbols();
    if (!dynamic) return fail(dynamic.error());
    const auto full = image_.full_symbols();
    if (!full && dynamic->size() == 0) return fail(full.error());
    if (kinds_.has(SymbolKind::plt)) add_plt(*dynamic);
    add(*dynamic);
    if (full) add(*full); // else exported symbols only; Image::symbol_damage() has the warning
    return {};
  }

  void add_debug() {
    for (const elf::SymbolTable& table : image_.debug_symbols()) add(table);
  }

  SymbolList take() {
    drop_labels();
    return {std::move(tables_), std::move(entries_)};
  }

private:
  void add(const elf::SymbolTable& table) {
    const std::uint16_t number = add_table(table);
    DemanglingBudget::for_this_thread().refill(); // new threads start with a full one
    const unsigned parts = thread_count_for(table.size());
    std::vector<std::vector<SymbolList::Entry>> found(parts - 1); // of all parts but the first
    const auto part_begin = [&](unsigned part) {
      return static_cast<std::uint32_t>(std::uint64_t{table.size()} * part / parts);
    };
    // The kernel does not allocate unused pages of reserved memory; growing in steps uses more.
    const bool takes_most = filter_.patterns.empty();
    if (takes_most) entries_.reserve(entries_.size() + table.size());
    parallel_for(parts, [&](unsigned part) {
      const std::uint32_t begin = part_begin(part);
      const std::uint32_t end = part_begin(part + 1);
      auto& entries = part == 0 ? entries_ : found[part - 1];
      if (takes_most && part != 0) entries.reserve(end - begin);
      add(table, number, begin, end, entries);
    });
    for (const auto& entries : found)
      entries_.insert(entries_.end(), entries.begin(), entries.end());
  }

  // The entries from begin to end. Called from several threads at once.
  void add(const elf::SymbolTable& table, std::uint16_t number, std::uint32_t begin,
           std::uint32_t end, std::vector<SymbolList::Entry>& entries) const {
    for (std::uint32_t index = std::max(begin, 1U); index < end; ++index) {
      elf::Prefetch::name(table, index + std::uint32_t{prefetch_distance});
      if (const auto symbol = table.at(index);
          symbol && kinds_.selects(*symbol, image_) && matches_filter(*symbol, filter_))
        entries.push_back({symbol->address, index, number});
    }
  }

  void add_plt(const elf::SymbolTable& dynamic) {
    const std::uint16_t number = add_table(dynamic);
    for (const PltEntry& entry : find_plt_entries(image_))
      if (const auto symbol = dynamic.at(entry.symbol);
          symbol && matches_filter(plt_symbol(*symbol, entry), filter_))
        entries_.push_back({entry.address, entry.symbol, number, entry.size});
  }

  // Removes symbols that match only without what looks like a suffix, but is none.
  void drop_labels() {
    if (filter_.patterns.empty()) return;
    std::optional<Bodies> bodies;
    std::erase_if(entries_, [&](const SymbolList::Entry& entry) {
      const auto symbol =
          entry.stub_size == 0 ? tables_[entry.table].at(entry.index) : std::nullopt;
      if (!symbol || !symbol->defined || !symbol->name.contains('.') ||
          matches_any(filter_.patterns, symbol->name, symbol->name))
        return false;
      if (!bodies) bodies.emplace(image_);
      const auto clone = bodies->split(*symbol);
      return !clone || !matches_any(filter_.patterns, symbol->name, clone->base);
    });
  }

  // Returns the index of the table.
  std::uint16_t add_table(const elf::SymbolTable& table) {
    tables_.push_back(table);
    return static_cast<std::uint16_t>(tables_.size() - 1);
  }

  const elf::Image& image_;
  const SymbolFilter& filter_;
  KindSet kinds_;
  std::vector<elf::SymbolTable> tables_;
  std::vector<SymbolList::Entry> entries_;
};

} // namespace

// A radix sort, lowest digit first: several times as fast as comparing some ten thousand addresses.
// Digits that are equal in all addresses are skipped.
void sort_by_address(std::vector<SymbolList::Entry>& entries) {
  constexpr unsigned digit_bits = 11;
  constexpr std::size_t digits = std::size_t{1} << digit_bits;
  std::uint64_t differing = 0;
  for (const SymbolList::Entry& entry : entries)
    differing |= entry.address.value ^ entries.front().address.value;
  std::vector<SymbolList::Entry> sorted(differing == 0 ? 0 : entries.size());
  for (unsigned shift = 0; shift < 64 && differing >> shift != 0; shift += digit_bits) {
    if ((differing >> shift) % digits == 0) continue;
    const auto get_digit = [&](const SymbolList::Entry& entry) {
      return (entry.address.value >> shift) % digits;
    };
    std::array<std::size_t, digits> next = {}; // where the next entry with this digit goes
    for (const SymbolList::Entry& entry : entries) ++next[get_digit(entry)];
    std::exclusive_scan(next.begin(), next.end(), next.begin(), std::size_t{0});
    for (const SymbolList::Entry& entry : entries) sorted[next[get_digit(entry)]++] = entry;
    entries.swap(sorted);
  }
}

std::vector<std::size_t> order_without_repeats(std::span<const elf::Symbol> symbols) {
  std::vector<std::size_t> order(symbols.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(
      order, [&](std::size_t a, std::size_t b) { return comes_before(symbols[a], symbols[b]); });
  std::size_t kept = 0;
  bool in_dynsym = false; // whether .dynsym has the current address and name
  for (const std::size_t index : order) {
    const elf::Symbol& symbol = symbols[index];
    const elf::Symbol* last = kept > 0 ? &symbols[order[kept - 1]] : nullptr;
    if (last == nullptr || !is_repeated(*last, symbol)) {
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

SymbolList::SymbolList(std::vector<elf::SymbolTable> tables, std::vector<Entry> entries)
    : tables_(std::move(tables)), entries_(std::move(entries)) {
  sort_without_repeats();
}

// Reads only symbols that share an address, which few do: the others are ordered by address.
void SymbolList::sort_without_repeats() {
  sort_by_address(entries_);
  std::vector<Entry> shared;
  std::vector<elf::Symbol> symbols;
  std::size_t kept = 0;
  for (std::size_t begin = 0, end = 0; begin < entries_.size(); begin = end) {
    while (end < entries_.size() && entries_[end].address == entries_[begin].address) ++end;
    if (end == begin + 1) {
      entries_[kept++] = entries_[begin];
      continue;
    }
    shared.clear();
    symbols.clear();
    for (std::size_t i = begin; i < end; ++i) {
      shared.push_back(entries_[i]);
      symbols.push_back((*this)[i]);
    }
    for (const std::size_t i : order_without_repeats(symbols)) entries_[kept++] = shared[i];
  }
  entries_.resize(kept);
}

// The entry was valid when it was listed; it may be invalid now if the file was written to.
elf::Symbol SymbolList::operator[](std::size_t index) const {
  const Entry& entry = entries_[index];
  const auto symbol = tables_[entry.table].at(entry.index).value_or(elf::Symbol());
  if (entry.stub_size == 0) return symbol;
  return plt_symbol(symbol, {entry.address, entry.stub_size, entry.index});
}

std::string_view SymbolList::name(std::size_t index) const {
  const Entry& entry = entries_[index];
  return tables_[entry.table].name(entry.index).value_or(std::string_view());
}

void prefetch(const SymbolList& symbols, std::size_t index) {
  const auto& entries = symbols.entries_;
  if (index >= entries.size()) return;
  elf::Prefetch::name(symbols.tables_[entries[index].table], entries[index].index);
  index += prefetch_distance;
  if (index < entries.size())
    elf::Prefetch::entry(symbols.tables_[entries[index].table], entries[index].index);
}

SymbolList::Iterator& SymbolList::Iterator::operator++() {
  prefetch(*list_, ++index_ + prefetch_distance);
  return *this;
}

SymbolList::Iterator SymbolList::Iterator::operator++(int) {
  const Iterator before = *this;
  ++*this;
  return before;
}

std::vector<std::string> SymbolList::aliases(VirtualAddress address, std::string_view own) const {
  std::vector<std::string> names;
  const auto found = std::ranges::equal_range(entries_, address, {}, &Entry::address);
  const auto begin = static_cast<std::size_t>(found.begin() - entries_.begin());
  for (std::size_t i = begin; i < begin + found.size(); ++i) {
    const elf::Symbol symbol = (*this)[i];
    if (symbol.name != own && (names.empty() || names.back() != symbol.name))
      names.emplace_back(symbol.name);
  }
  return names;
}

bool matches_name(const std::string& pattern, std::string_view raw,
                  std::optional<std::string_view> function) {
  const bool is_suffixed = function && raw.starts_with(*function);
  return matches_any({&pattern, 1}, raw, is_suffixed ? *function : raw);
}

Result<SymbolList> list_own_symbols(const elf::Image& image, const SymbolFilter& filter) {
  SymbolCollector collector(image, filter);
  if (auto added = collector.add_own(); !added) return fail(std::move(added).error());
  return collector.take();
}

SymbolList list_debug_symbols(const elf::Image& image, const SymbolFilter& filter) {
  SymbolCollector collector(image, filter);
  collector.add_debug();
  return collector.take();
}

Result<SymbolList> list_symbols(const elf::Image& image, const SymbolFilter& filter) {
  SymbolCollector collector(image, filter);
  if (auto added = collector.add_own(); !added) return fail(std::move(added).error());
  // An image with a whole .symtab is listed without debug tables. Otherwise the result would depend
  // on whether an earlier lookup has loaded a debug file.
  if (collector.is_empty() || !has_whole_symtab(image)) collector.add_debug();
  return collector.take();
}

} // namespace uprobectl::symbols
