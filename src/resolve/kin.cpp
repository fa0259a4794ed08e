#include "resolve/kin.hpp"

#include "util/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_set>

namespace uprobectl {

namespace {

constexpr std::size_t most_names = 10;

std::string listed(std::vector<std::string> names) {
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  const std::size_t shown = std::min(names.size(), most_names);
  std::string text = joined(std::span(names).first(shown));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

void warn_of_clones(const Kin& kin, bool with_clones, ProbePoint& point) {
  std::vector<std::string> missed;
  std::vector<std::string> cold;
  for (const elf::Symbol& clone : kin.clones) {
    if (!clone.name.starts_with(*point.symbol)) continue;
    auto& names = is_cold_part(clone.name) ? cold : missed;
    names.emplace_back(clone.name);
  }
  if (!missed.empty() && !with_clones)
    point.warnings.push_back(fmt::format("'{}' has compiler clones, whose calls are not seen here "
                                         "(--clones probes them, too): {}",
                                         *point.symbol, listed(std::move(missed))));
  if (!cold.empty())
    point.warnings.push_back(
        fmt::format("'{}' has parts that are jumped into, not called, and need no probe: {}",
                    *point.symbol, listed(std::move(cold))));
}

void warn_of_folding(const Kin& kin, ProbePoint& point) {
  const elf::Symbol own{.name = *point.symbol, .size = point.size.value_or(0)};
  const VirtualAddress start{point.address.value - point.symbol_offset};
  std::vector<std::string> others;
  for (const elf::Symbol& symbol :
       std::ranges::equal_range(kin.same_place, start, {}, &elf::Symbol::address))
    if (are_different_functions(own, symbol))
      others.push_back(demangle(symbol.name).value_or(std::string(symbol.name)));
  if (others.empty()) return;
  others.push_back(point.demangled.value_or(*point.symbol));
  point.warnings.push_back(
      fmt::format("several functions were folded to {:#x}, the probe fires for "
                  "each: {}",
                  start.value, listed(std::move(others))));
}

} // namespace

void warn_of_kin(const Kin& kin, bool with_clones, std::span<ProbePoint> points) {
  std::unordered_set<std::string> warned; // once for each name
  for (ProbePoint& point : points) {
    if (!point.symbol) continue;
    if (warned.insert(*point.symbol).second) warn_of_clones(kin, with_clones, point);
    warn_of_folding(kin, point);
  }
}

} // namespace uprobectl
