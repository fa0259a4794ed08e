#include "symbols/clone_name.hpp"
#include "symbols/code.hpp"
#include "symbols/demangle.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

bool known(const std::vector<elf::Symbol>& symbols, const elf::Symbol& symbol) {
  return std::ranges::any_of(symbols, [&](const elf::Symbol& other) {
    return other.name == symbol.name && other.address == symbol.address;
  });
}

void add(std::vector<elf::Symbol>& symbols, const elf::Symbol& symbol) {
  if (!known(symbols, symbol)) symbols.push_back(symbol);
}

void sort(std::vector<elf::Symbol>& symbols) {
  std::ranges::sort(symbols, [](const elf::Symbol& a, const elf::Symbol& b) {
    return a.address != b.address ? a.address < b.address : a.name < b.name;
  });
}

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
  Kin kin;
  for_each_symbol(image, [&](const elf::Symbol& symbol) {
    for (const elf::Symbol& function : functions) {
      const bool same = symbol.address == function.address && symbol.name != function.name;
      const bool longer =
          symbol.name.size() > function.name.size() && symbol.name.starts_with(function.name);
      if ((!same && !longer) || !is_code(symbol, image)) continue;
      if (same) add(kin.same_place, symbol);
      const auto clone = longer ? clone_name(symbol.name) : std::nullopt;
      if (clone && clone->base == function.name) add(kin.clones, symbol);
    }
  });
  sort(kin.same_place);
  sort(kin.clones);
  return kin;
}

std::vector<elf::Symbol> find_clones_by_name(const elf::Image& image, std::string_view name) {
  std::vector<elf::Symbol> clones;
  for_each_symbol(image, [&](const elf::Symbol& symbol) {
    const auto clone = clone_name(symbol.name);
    if (!clone || !is_code(symbol, image)) return;
    if (clone->base == name || is_written_name(clone->base, name)) add(clones, symbol);
  });
  sort(clones);
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
