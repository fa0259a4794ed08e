#include "symbols/list.hpp"
#include "symbols/code.hpp"
#include "symbols/demangle.hpp"
#include "symbols/order.hpp"

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

void collect(const elf::SymbolTable& table, const elf::Image& image, const SymbolFilter& filter,
             std::vector<elf::Symbol>& symbols) {
  constexpr std::uint32_t ahead = 16;
  const Kinds kinds(filter);
  for (std::uint32_t index = 1; index < table.size(); ++index) {
    table.expect(index + ahead);
    if (const auto symbol = table.at(index);
        symbol && kinds.want(*symbol, image) && is_wanted(*symbol, filter))
      symbols.push_back(*symbol);
  }
}

} // namespace

bool matches_name(const std::string& pattern, std::string_view raw) {
  return matches_any({&pattern, 1}, raw);
}

Result<std::vector<elf::Symbol>> list_own_symbols(const elf::Image& image,
                                                  const SymbolFilter& filter) {
  const auto dynamic = image.dynamic_symbols();
  if (!dynamic) return fail(dynamic.error());
  const auto full = image.full_symbols();
  if (!full) return fail(full.error());
  std::vector<elf::Symbol> symbols;
  if (Kinds(filter).has(SymbolKind::plt)) symbols = plt_entries(image);
  std::erase_if(symbols, [&](const elf::Symbol& entry) { return !is_wanted(entry, filter); });
  // Memory that is not used is never touched, but growing step by step would touch twice what is.
  if (filter.patterns.empty()) symbols.reserve(symbols.size() + dynamic->size() + full->size());
  collect(*dynamic, image, filter, symbols);
  collect(*full, image, filter, symbols);
  return sorted_without_repeats(std::move(symbols));
}

std::vector<elf::Symbol> list_debug_symbols(const elf::Image& image, const SymbolFilter& filter) {
  std::vector<elf::Symbol> symbols;
  for (const elf::SymbolTable& table : image.debug_symbols())
    collect(table, image, filter, symbols);
  return sorted_without_repeats(std::move(symbols));
}

Result<std::vector<elf::Symbol>> list_symbols(const elf::Image& image, const SymbolFilter& filter) {
  auto symbols = list_own_symbols(image, filter);
  if (!symbols || image.debug_symbols().empty()) return symbols;
  // The answer is not to depend on whether an earlier question has brought a debug file in: where
  // there is a .symtab, that is the list.
  const auto full = image.full_symbols();
  if (full && full->size() > 0 && !symbols->empty()) return symbols;
  const auto more = list_debug_symbols(image, filter);
  symbols->insert(symbols->end(), more.begin(), more.end());
  return sorted_without_repeats(std::move(*symbols));
}

} // namespace uprobectl
