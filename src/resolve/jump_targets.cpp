// SPDX-License-Identifier: Apache-2.0
#include "resolve/jump_targets.hpp"

#include "symbols/classify.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::resolve {

namespace {

// How many symbols before an address are searched for one that covers it. Few functions contain
// the symbols of others, and those contain few.
constexpr std::size_t max_before = 64;

bool is_part_name(std::string_view name, std::string_view function) {
  if (function.empty() || name.size() <= function.size() || !name.starts_with(function))
    return false;
  if (name[function.size()] != '.') return false;
  const std::string_view rest = name.substr(function.size() + 1);
  return symbols::is_part_word(rest.substr(0, rest.find('.')));
}

constexpr std::string_view cold_suffix = ".cold";

// Prefers exported names, then short ones.
bool is_better_name(const elf::Symbol& a, const elf::Symbol& b) {
  const bool a_exported = a.binding != elf::Binding::local;
  const bool b_exported = b.binding != elf::Binding::local;
  if (a_exported != b_exported) return a_exported;
  return a.name.size() != b.name.size() ? a.name.size() < b.name.size() : a.name < b.name;
}

} // namespace

JumpTargets::JumpTargets(binary::Binary& file) {
  file.complete_symbols();
  const elf::Image& image = file.image();
  const symbols::SymbolFilter everything{
      .kinds = {symbols::SymbolKind::function, symbols::SymbolKind::ifunc,
                symbols::SymbolKind::label, symbols::SymbolKind::plt}};
  if (auto list = list_symbols(image, everything)) symbols_ = std::move(*list);
  for (std::size_t i = 0; i < symbols_.size(); ++i)
    if (const elf::Symbol symbol = symbols_[i];
        symbol.size > 0 && symbol.name.ends_with(cold_suffix))
      cold_parts_.push_back(i);
  std::ranges::sort(cold_parts_, {}, [&](std::size_t i) { return symbols_[i].name; });
  if (auto slots = image.import_slots()) slots_ = std::move(*slots);
  std::ranges::sort(slots_, {}, &elf::ImportSlot::address);
  if (auto table = image.dynamic_symbols()) dynamic_ = std::move(*table);
}

template <typename Visit>
void JumpTargets::visit_covering(VirtualAddress address, Visit visit) const {
  std::size_t begin = 0; // after the loop: end of the symbols at or before the address
  for (std::size_t end = symbols_.size(); begin < end;) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (symbols_.address(middle) <= address)
      begin = middle + 1;
    else
      end = middle;
  }
  for (std::size_t i = begin; i > 0 && begin - i < max_before; --i) {
    const elf::Symbol symbol = symbols_[i - 1];
    const std::uint64_t into = address.value - symbol.address.value;
    if ((into == 0 || into < symbol.size) && !visit(symbol, into)) return;
  }
}

std::optional<elf::Symbol> JumpTargets::part_at(VirtualAddress address,
                                                VirtualAddress function) const {
  std::optional<elf::Symbol> part;
  visit_covering(address, [&](const elf::Symbol& symbol, std::uint64_t) {
    if (symbol.size > 0 && is_part_of(symbol.name, function)) part = symbol;
    return !part;
  });
  return part;
}

bool JumpTargets::is_part_of(std::string_view part, VirtualAddress function) const {
  bool found = false;
  visit_covering(function, [&](const elf::Symbol& symbol, std::uint64_t into) {
    found = into == 0 && is_part_name(part, symbol.name);
    return !found && into == 0;
  });
  return found;
}

// Returns nullopt if several parts have the name: local functions of different sources can have the
// same name, and the part may belong to either.
std::optional<elf::Symbol> JumpTargets::find_cold_part(VirtualAddress function) const {
  if (cold_parts_.empty()) return std::nullopt;
  std::optional<elf::Symbol> part;
  visit_covering(function, [&](const elf::Symbol& symbol, std::uint64_t into) {
    if (into != 0) return false;
    const std::string cold_name = std::string(symbol.name) + std::string(cold_suffix);
    const auto same = std::ranges::equal_range(cold_parts_, std::string_view(cold_name), {},
                                               [&](std::size_t i) { return symbols_[i].name; });
    if (same.size() == 1) part = symbols_[same.front()];
    return !part;
  });
  return part;
}

std::optional<elf::AddressRange> JumpTargets::symbol_range_at(VirtualAddress address) const {
  std::optional<elf::AddressRange> range;
  visit_covering(address, [&](const elf::Symbol& symbol, std::uint64_t) {
    range = {symbol.address, symbol.size};
    return false;
  });
  return range;
}

bool JumpTargets::has_name(VirtualAddress address) const {
  bool found = false;
  visit_covering(address, [&](const elf::Symbol&, std::uint64_t) {
    found = true;
    return false;
  });
  return found;
}

std::string JumpTargets::name_at(VirtualAddress address) const {
  std::optional<elf::Symbol> best;
  std::uint64_t plus = 0;
  visit_covering(address, [&](const elf::Symbol& symbol, std::uint64_t into) {
    if (best && symbol.address != best->address) return false;
    if (!best || is_better_name(symbol, *best)) best = symbol;
    plus = into;
    return true;
  });
  if (!best) return fmt::format("vaddr:{:#x}", address.value);
  return symbols::display_name(*best) + (plus == 0 ? std::string() : fmt::format("+{:#x}", plus));
}

std::optional<elf::Symbol> JumpTargets::symbol_in_slot(VirtualAddress slot) const {
  const auto found = std::ranges::lower_bound(slots_, slot, {}, &elf::ImportSlot::address);
  if (found == slots_.end() || found->address != slot) return std::nullopt;
  return dynamic_.at(found->symbol);
}

std::optional<std::string> JumpTargets::name_in_slot(VirtualAddress slot) const {
  const auto symbol = symbol_in_slot(slot);
  if (!symbol || symbol->name.empty()) return std::nullopt;
  return symbols::demangle(symbol->name).value_or(std::string(symbol->name));
}

std::optional<VirtualAddress> JumpTargets::definition_in_slot(VirtualAddress slot) const {
  const auto symbol = symbol_in_slot(slot);
  if (!symbol || !symbol->defined || symbol->type != elf::SymbolType::function) return std::nullopt;
  return symbol->address;
}

bool JumpTargets::is_import_slot(VirtualAddress slot) const {
  const auto symbol = symbol_in_slot(slot);
  return symbol && !symbol->defined;
}

} // namespace uprobectl::resolve
