#include "symbols/list.hpp"
#include "symbols/code.hpp"
#include "symbols/demangle.hpp"
#include "symbols/plt.hpp"
#include "symbols/side_by_side.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

bool is_import(const elf::Symbol& symbol, const elf::Machine& machine) {
  const bool callable =
      symbol.type == elf::SymbolType::function || symbol.type == elf::SymbolType::none;
  return !symbol.defined && callable && is_named(symbol, machine);
}

bool is_data(const elf::Symbol& symbol, const elf::Machine& machine) {
  return symbol.defined && !symbol.absolute && symbol.type == elf::SymbolType::object &&
         is_named(symbol, machine);
}

// The kinds that a filter asks for.
class Kinds {
public:
  explicit Kinds(const SymbolFilter& filter) {
    if (filter.imports) add(SymbolKind::import);
    for (const SymbolKind kind : filter.kinds) add(kind);
    if (wanted_ == 0)
      for (const SymbolKind kind : {SymbolKind::function, SymbolKind::ifunc, SymbolKind::label})
        add(kind);
  }

  bool has(SymbolKind kind) const { return (wanted_ & bit(kind)) != 0; }

  bool want(const elf::Symbol& symbol, const elf::Image& image) const {
    const SymbolKind kind = kind_of(symbol);
    if (!has(kind)) return false;
    if (kind == SymbolKind::import) return is_import(symbol, image.machine());
    if (kind == SymbolKind::object) return is_data(symbol, image.machine());
    return is_code(symbol, image);
  }

private:
  static unsigned bit(SymbolKind kind) { return 1U << static_cast<unsigned>(kind); }
  void add(SymbolKind kind) { wanted_ |= bit(kind); }

  unsigned wanted_ = 0;
};

// Demangling costs one to two microseconds a name, so it is done only where the raw name matches
// nothing.
bool matches_any(std::span<const std::string> patterns, std::string_view raw) {
  const auto any = [&](std::string_view name) {
    return std::ranges::any_of(
        patterns, [&](const std::string& pattern) { return matches_pattern(pattern, name); });
  };
  if (patterns.empty() || any(raw)) return true;
  if (!looks_mangled(raw)) return false;
  const auto parts = demangle_parts(raw);
  return parts && (any(parts->whole) || (!parts->name.empty() && any(parts->name)));
}

bool is_wanted(const elf::Symbol& symbol, const SymbolFilter& filter) {
  return symbol.size >= filter.min_size && matches_any(filter.patterns, symbol.name);
}

// Gathers the symbols that a filter asks for.
class Collector {
public:
  Collector(const elf::Image& image, const SymbolFilter& filter)
      : image_(image), filter_(filter), kinds_(filter) {}

  bool is_empty() const { return places_.empty(); }

  Result<void> add_own() {
    const auto dynamic = image_.dynamic_symbols();
    if (!dynamic) return fail(dynamic.error());
    const auto full = image_.full_symbols();
    if (!full && dynamic->size() == 0) return fail(full.error());
    if (kinds_.has(SymbolKind::plt)) add_plt(*dynamic);
    add(*dynamic);
    if (full) add(*full); // else what is exported, with a warning (Image::symbol_damage)
    return {};
  }

  void add_debug() {
    for (const elf::SymbolTable& table : image_.debug_symbols()) add(table);
  }

  SymbolList take() { return {std::move(tables_), std::move(places_)}; }

private:
  void add(const elf::SymbolTable& table) {
    const std::uint16_t number = number_of(table);
    DemanglingBudget::of_this_thread().refill(); // other threads are new
    const unsigned parts = threads_for(table.size());
    std::vector<std::vector<SymbolList::Place>> found(parts - 1); // by all parts but the first
    const auto begin_of = [&](unsigned part) {
      return static_cast<std::uint32_t>(std::uint64_t{table.size()} * part / parts);
    };
    // Memory that is not used is never touched, growing step by step would touch twice what is.
    const bool takes_most = filter_.patterns.empty();
    if (takes_most) places_.reserve(places_.size() + table.size());
    side_by_side(parts, [&](unsigned part) {
      const std::uint32_t begin = begin_of(part);
      const std::uint32_t end = begin_of(part + 1);
      auto& places = part == 0 ? places_ : found[part - 1];
      if (takes_most && part != 0) places.reserve(end - begin);
      add(table, number, begin, end, places);
    });
    for (const auto& places : found) places_.insert(places_.end(), places.begin(), places.end());
  }

  // The entries from begin to end. Called from several threads at once.
  void add(const elf::SymbolTable& table, std::uint16_t number, std::uint32_t begin,
           std::uint32_t end, std::vector<SymbolList::Place>& places) const {
    constexpr std::uint32_t ahead = 16;
    for (std::uint32_t index = std::max(begin, 1U); index < end; ++index) {
      table.expect(index + ahead);
      if (const auto symbol = table.at(index);
          symbol && kinds_.want(*symbol, image_) && is_wanted(*symbol, filter_))
        places.push_back({symbol->address, index, number});
    }
  }

  void add_plt(const elf::SymbolTable& dynamic) {
    const std::uint16_t number = number_of(dynamic);
    for (const PltEntry& entry : find_plt_entries(image_))
      if (const auto symbol = dynamic.at(entry.symbol);
          symbol && is_wanted(plt_symbol(*symbol, entry), filter_))
        places_.push_back({entry.address, entry.symbol, number, entry.size});
  }

  std::uint16_t number_of(const elf::SymbolTable& table) {
    tables_.push_back(table);
    return static_cast<std::uint16_t>(tables_.size() - 1);
  }

  const elf::Image& image_;
  const SymbolFilter& filter_;
  Kinds kinds_;
  std::vector<elf::SymbolTable> tables_;
  std::vector<SymbolList::Place> places_;
};

} // namespace

bool matches_name(const std::string& pattern, std::string_view raw) {
  return matches_any({&pattern, 1}, raw);
}

Result<SymbolList> list_own_symbols(const elf::Image& image, const SymbolFilter& filter) {
  Collector collector(image, filter);
  if (auto added = collector.add_own(); !added) return fail(std::move(added).error());
  return collector.take();
}

SymbolList list_debug_symbols(const elf::Image& image, const SymbolFilter& filter) {
  Collector collector(image, filter);
  collector.add_debug();
  return collector.take();
}

Result<SymbolList> list_symbols(const elf::Image& image, const SymbolFilter& filter) {
  Collector collector(image, filter);
  if (auto added = collector.add_own(); !added) return fail(std::move(added).error());
  // The answer is not to depend on whether an earlier question has brought a debug file in: where
  // there is a .symtab, that is the list.
  const auto full = image.full_symbols();
  if (!full || full->size() == 0 || collector.is_empty()) collector.add_debug();
  return collector.take();
}

} // namespace uprobectl
