#include "symbols/clone_name.hpp"
#include "symbols/code.hpp"
#include "symbols/demangle.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace uprobectl {

namespace {

// By address, then by name. Of symbols that agree in both the first is kept.
void sort_without_repeats(std::vector<elf::Symbol>& symbols) {
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

// Those of one address.
struct Functions {
  std::string_view name; // of the last
  bool differ = false;   // they have several names
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

bool is_clone(std::string_view raw) { return clone_name(raw).has_value(); }

bool is_cold_part(std::string_view raw) {
  const auto clone = clone_name(raw);
  return clone && clone->cold;
}

Kin find_kin(const elf::Image& image, std::span<const elf::Symbol> functions) {
  std::unordered_set<std::string_view> names;
  std::unordered_map<std::uint64_t, Functions> places;
  for (const elf::Symbol& function : functions) {
    names.insert(function.name);
    Functions& there = places[function.address.value];
    there.differ = there.differ || (!there.name.empty() && there.name != function.name);
    there.name = function.name;
  }
  Kin kin;
  for_each_symbol(image, [&](const elf::Symbol& symbol) {
    const auto there = places.find(symbol.address.value);
    const bool same =
        there != places.end() && (there->second.differ || there->second.name != symbol.name);
    const auto clone = clone_name(symbol.name);
    const bool is_clone_of_one = clone && names.contains(clone->base);
    if ((!same && !is_clone_of_one) || !is_code(symbol, image)) return;
    if (same) kin.same_place.push_back(symbol);
    if (is_clone_of_one) kin.clones.push_back(symbol);
  });
  sort_without_repeats(kin.same_place);
  sort_without_repeats(kin.clones);
  return kin;
}

std::vector<elf::Symbol> find_clones_by_name(const elf::Image& image, std::string_view name) {
  std::vector<elf::Symbol> clones;
  for_each_symbol(image, [&](const elf::Symbol& symbol) {
    const auto clone = clone_name(symbol.name);
    if (!clone || !is_code(symbol, image)) return;
    if (clone->base == name || is_written_name(clone->base, name)) clones.push_back(symbol);
  });
  sort_without_repeats(clones);
  return clones;
}

bool are_different_functions(const elf::Symbol& a, const elf::Symbol& b) {
  if (a.size == 0 || b.size == 0 || !looks_mangled(a.name) || !looks_mangled(b.name)) return false;
  const auto without_clone = [](std::string_view raw) {
    const auto clone = clone_name(raw);
    return demangle(clone ? clone->base : raw);
  };
  const auto first = without_clone(a.name);
  const auto second = without_clone(b.name);
  return first && second && *first != *second;
}

} // namespace uprobectl
