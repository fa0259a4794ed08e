#include "symbols/sort_by_address.hpp"

#include <array>
#include <numeric>

namespace uprobectl {

// Digit by digit, the lowest first, each time keeping the order of equals: several times as fast as
// comparing some ten thousand addresses. Digits that all addresses share are left out.
void sort_by_address(std::vector<SymbolList::Place>& places) {
  constexpr unsigned digit_bits = 11;
  constexpr std::size_t digits = std::size_t{1} << digit_bits;
  std::uint64_t differing = 0;
  for (const SymbolList::Place& place : places)
    differing |= place.address.value ^ places.front().address.value;
  std::vector<SymbolList::Place> sorted(differing == 0 ? 0 : places.size());
  for (unsigned shift = 0; shift < 64 && differing >> shift != 0; shift += digit_bits) {
    if ((differing >> shift) % digits == 0) continue;
    const auto digit_of = [&](const SymbolList::Place& place) {
      return (place.address.value >> shift) % digits;
    };
    std::array<std::size_t, digits> next = {}; // where the next place with this digit goes
    for (const SymbolList::Place& place : places) ++next[digit_of(place)];
    std::exclusive_scan(next.begin(), next.end(), next.begin(), std::size_t{0});
    for (const SymbolList::Place& place : places) sorted[next[digit_of(place)]++] = place;
    places.swap(sorted);
  }
}

} // namespace uprobectl
