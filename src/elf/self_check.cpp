// SPDX-License-Identifier: Apache-2.0
#include "elf/self_check.hpp"

#include "elf/sections.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::elf {

namespace {

// The symbols at the start and after the end of the code that a module hashes. A build may put a
// prefix before them (AWS-LC).
struct Bounds {
  std::string_view begin;
  std::string_view end;
};
constexpr std::array<Bounds, 2> known_bounds = {{
    {"BORINGSSL_bcm_text_start", "BORINGSSL_bcm_text_end"},
    {"wolfCrypt_FIPS_first", "wolfCrypt_FIPS_last"},
}};
// Exported, so that stripped files have it.
constexpr std::string_view known_test = "BORINGSSL_integrity_test";

class ModuleFinder {
public:
  void add(const SymbolTable& table) {
    const bool may_have_bounds = std::ranges::any_of(
        known_bounds, [&](const Bounds& known) { return table.may_have_suffix(known.begin); });
    if (!may_have_bounds && !table.may_have_suffix(known_test)) return;
    for (std::uint32_t index = 1; index < table.size(); ++index) {
      const auto name = table.name(index);
      if (!name) continue;
      for (std::size_t i = 0; i < known_bounds.size(); ++i) {
        if (name->ends_with(known_bounds[i].begin)) begins_[i] = address_of(table, index);
        if (name->ends_with(known_bounds[i].end)) ends_[i] = address_of(table, index);
      }
      has_test_ = has_test_ || (name->ends_with(known_test) && address_of(table, index));
    }
  }

  std::optional<SelfCheck> result() const {
    for (std::size_t i = 0; i < known_bounds.size(); ++i)
      if (begins_[i] && ends_[i] && *begins_[i] < *ends_[i])
        return SelfCheck{.code = AddressRange{*begins_[i], ends_[i]->value - begins_[i]->value}};
    return has_test_ ? std::optional(SelfCheck{}) : std::nullopt;
  }

private:
  static std::optional<VirtualAddress> address_of(const SymbolTable& table, std::uint32_t index) {
    const auto symbol = table.at(index);
    return symbol && symbol->defined ? std::optional(symbol->address) : std::nullopt;
  }

  std::array<std::optional<VirtualAddress>, known_bounds.size()> begins_;
  std::array<std::optional<VirtualAddress>, known_bounds.size()> ends_;
  bool has_test_ = false;
};

} // namespace

std::optional<SelfCheck> find_self_check(const Image& image) {
  ModuleFinder finder;
  if (const auto table = image.dynamic_symbols()) finder.add(*table);
  if (const auto table = image.full_symbols()) finder.add(*table);
  for (const SymbolTable& table : image.debug_symbols()) finder.add(table);
  if (auto found = finder.result()) return found;
  const auto layout = read_layout(image.bytes());
  if (layout && find_section(*layout, ".go.fipsinfo")) return SelfCheck{.kind = SelfCheckKind::go};
  return std::nullopt;
}

} // namespace uprobectl::elf
