// SPDX-License-Identifier: Apache-2.0
#include "symbols/classify.hpp"

#include "symbols/demangle.hpp"
#include "uprobectl/symbols.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace uprobectl {

bool is_mapping_symbol(const elf::Symbol& symbol, const elf::Machine& machine) {
  const MappingSymbols form = machine.info().mapping_symbols;
  if (form == MappingSymbols::none) return false;
  const auto name = symbol.name;
  if (symbol.type != elf::SymbolType::none || name.size() < 2 || name[0] != '$') return false;
  if (std::string_view("adtx").find(name[1]) == std::string_view::npos) return false;
  return name.size() == 2 || name[2] == '.' || form == MappingSymbols::with_isa;
}

bool is_named(const elf::Symbol& symbol, const elf::Machine& machine) {
  if (symbol.name.empty()) return false;
  if (symbol.type == elf::SymbolType::section || symbol.type == elf::SymbolType::file) return false;
  return !is_mapping_symbol(symbol, machine);
}

bool is_code(const elf::Symbol& symbol, const elf::Image& image) {
  if (!symbol.defined || symbol.absolute) return false;
  switch (symbol.type) {
  case elf::SymbolType::function:
  case elf::SymbolType::ifunc:
    break;
  case elf::SymbolType::none:
    // ".L" names are local labels of the compiler; assemblers normally drop them.
    if (symbol.name.starts_with(".L") || symbol.in_data) return false;
    break;
  case elf::SymbolType::object:
  case elf::SymbolType::section:
  case elf::SymbolType::file:
  case elf::SymbolType::tls:
  case elf::SymbolType::other:
    return false;
  }
  if (!is_named(symbol, image.machine())) return false;
  const elf::Segment* segment = image.find_segment(symbol.address);
  return segment != nullptr && segment->executable;
}

std::string_view to_string(SymbolKind kind) {
  switch (kind) {
  case SymbolKind::function:
    return "function";
  case SymbolKind::ifunc:
    return "ifunc";
  case SymbolKind::label:
    return "label";
  case SymbolKind::object:
    return "object";
  case SymbolKind::import:
    return "import";
  case SymbolKind::plt:
    return "plt";
  case SymbolKind::method:
    return "method";
  }
  return "object";
}

std::string_view to_string(elf::Binding binding) {
  switch (binding) {
  case elf::Binding::local:
    return "local";
  case elf::Binding::global:
    return "global";
  case elf::Binding::weak:
    return "weak";
  }
  return "local";
}

std::string_view to_string(elf::Table table) {
  switch (table) {
  case elf::Table::dynsym:
    return "dynsym";
  case elf::Table::symtab:
    return "symtab";
  case elf::Table::gnu_debugdata:
    return "gnu_debugdata";
  case elf::Table::debug_file:
    return "debug_file";
  case elf::Table::oat:
    return "oat";
  case elf::Table::plt:
    return "plt";
  }
  return "symtab";
}

SymbolKind symbol_kind(const elf::Symbol& symbol) {
  if (symbol.table == elf::Table::plt) return SymbolKind::plt;
  if (symbol.table == elf::Table::oat) return SymbolKind::method;
  if (!symbol.defined) return SymbolKind::import;
  switch (symbol.type) {
  case elf::SymbolType::function:
    return SymbolKind::function;
  case elf::SymbolType::ifunc:
    return SymbolKind::ifunc;
  case elf::SymbolType::none:
    return symbol.in_data ? SymbolKind::object : SymbolKind::label;
  case elf::SymbolType::object:
  case elf::SymbolType::section:
  case elf::SymbolType::file:
  case elf::SymbolType::tls:
  case elf::SymbolType::other:
    return SymbolKind::object;
  }
  return SymbolKind::object;
}

namespace {

constexpr std::array<std::string_view, 7> clone_suffixes = {
    "constprop", "isra", "part", "cold", "llvm", "lto_priv", "__uniq"};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Sorts by address and name, and removes repeats.
void sort_unique_symbols(std::vector<elf::Symbol>& symbols) {
  const auto place = [](const elf::Symbol& symbol) {
    return std::pair(symbol.address.value, symbol.name);
  };
  std::vector<std::size_t> order(symbols.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(place(symbols[i]), i); });
  std::vector<elf::Symbol> kept;
  for (const std::size_t i : order)
    if (kept.empty() || place(kept.back()) != place(symbols[i])) kept.push_back(symbols[i]);
  symbols = std::move(kept);
}

// The names of the functions at one address.
struct NamesAtAddress {
  std::string_view last;
  bool differ = false; // whether there are several
};

template <typename Visit>
void for_each_symbol(const elf::Image& image, Visit visit) {
  const auto walk = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index)
      if (const auto symbol = table.at(index)) visit(*symbol);
  };
  if (const auto table = image.dynamic_symbols()) walk(*table);
  if (const auto table = image.full_symbols()) walk(*table);
  for (const elf::SymbolTable& table : image.debug_symbols()) walk(table);
}

} // namespace

std::optional<CloneName> parse_clone_name(std::string_view raw) {
  if (!raw.contains('.')) return std::nullopt; // most names: much quicker than rfind
  CloneName result{raw, false};
  while (true) {
    std::string_view rest = result.base;
    std::size_t dot = rest.rfind('.');
    if (dot != std::string_view::npos && is_number(rest.substr(dot + 1))) {
      rest = rest.substr(0, dot);
      dot = rest.rfind('.');
    }
    if (dot == std::string_view::npos || dot == 0) break;
    const std::string_view word = rest.substr(dot + 1);
    if (std::ranges::find(clone_suffixes, word) == clone_suffixes.end()) break;
    result.cold = result.cold || word == "cold";
    result.base = rest.substr(0, dot);
  }
  if (result.base.size() == raw.size()) return std::nullopt;
  return result;
}

bool has_other_arguments(std::string_view raw) {
  const auto clone = parse_clone_name(raw);
  if (!clone) return false;
  for (std::string_view rest = raw.substr(clone->base.size()); !rest.empty();) {
    rest.remove_prefix(1); // the dot
    const std::string_view word = rest.substr(0, rest.find('.'));
    if (word == "constprop" || word == "isra" || word == "part") return true;
    rest.remove_prefix(word.size());
  }
  return false;
}

bool is_clone(std::string_view raw) { return parse_clone_name(raw).has_value(); }

bool is_cold_part(std::string_view raw) {
  const auto clone = parse_clone_name(raw);
  return clone && clone->cold;
}

RelatedSymbols find_related(const elf::Image& image, std::span<const elf::Symbol> functions) {
  std::unordered_set<std::string_view> names;
  std::unordered_map<std::uint64_t, NamesAtAddress> places;
  for (const elf::Symbol& function : functions) {
    names.insert(function.name);
    NamesAtAddress& there = places[function.address.value];
    there.differ = there.differ || (!there.last.empty() && there.last != function.name);
    there.last = function.name;
  }
  RelatedSymbols related;
  for_each_symbol(image, [&](const elf::Symbol& symbol) {
    const auto there = places.find(symbol.address.value);
    const bool same =
        there != places.end() && (there->second.differ || there->second.last != symbol.name);
    const auto clone = parse_clone_name(symbol.name);
    const bool is_clone_of_one = clone && names.contains(clone->base);
    if ((!same && !is_clone_of_one) || !is_code(symbol, image)) return;
    if (same) related.aliases.push_back(symbol);
    if (is_clone_of_one) related.clones.push_back(symbol);
  });
  sort_unique_symbols(related.aliases);
  sort_unique_symbols(related.clones);
  return related;
}

std::vector<elf::Symbol> find_clones_by_name(const elf::Image& image, std::string_view name) {
  std::vector<elf::Symbol> clones;
  for_each_symbol(image, [&](const elf::Symbol& symbol) {
    const auto clone = parse_clone_name(symbol.name);
    if (!clone || !is_code(symbol, image)) return;
    if (clone->base == name || matches_demangled_name(clone->base, name)) clones.push_back(symbol);
  });
  sort_unique_symbols(clones);
  return clones;
}

bool are_different_functions(const elf::Symbol& a, const elf::Symbol& b) {
  if (a.size == 0 || b.size == 0 || !looks_mangled(a.name) || !looks_mangled(b.name)) return false;
  const auto without_clone = [](std::string_view raw) {
    const auto clone = parse_clone_name(raw);
    return demangle(clone ? clone->base : raw);
  };
  const auto first = without_clone(a.name);
  const auto second = without_clone(b.name);
  return first && second && *first != *second;
}

} // namespace uprobectl
