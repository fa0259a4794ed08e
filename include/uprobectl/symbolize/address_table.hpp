// SPDX-License-Identifier: Apache-2.0
// What is known of addresses, as far as there is room: stacks come from the same places again and
// again. Bounded, so that a run of any length keeps its memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace uprobectl::symbolize {

// Each address may have any of four slots. Where all are taken the table grows, up to 4096 slots;
// then the one that has been there longest makes room.
template <typename Value>
class AddressTable {
public:
  // Null if it is not there. Valid until the next put().
  Value* find(std::uint64_t address) {
    if (slots_.empty()) return nullptr;
    Slot* const slot = &slots_[first_of(address)];
    for (std::size_t i = 0; i < ways; ++i)
      if (slot[i].used && slot[i].address == address) return &slot[i].value;
    return nullptr;
  }

  // One that is not there.
  Value& put(std::uint64_t address, Value value) {
    if (slots_.empty()) slots_.resize(first_size);
    while (slots_.size() < max_slots && slots_[first_of(address) + ways - 1].used) grow();
    Slot* const slot = &slots_[first_of(address)];
    for (std::size_t i = ways - 1; i > 0; --i) slot[i] = std::move(slot[i - 1]);
    slot[0] = {address, true, std::move(value)};
    return slot[0].value;
  }

private:
  static constexpr std::size_t ways = 4;
  static constexpr std::size_t first_size = 16;
  static constexpr std::size_t max_slots = 4096;
  struct Slot {
    std::uint64_t address = 0;
    bool used = false;
    Value value = {};
  };

  // The upper bits of the product with 2^64 / the golden ratio, which spread well. In a table twice
  // as large the four become two times four, so that growing loses nothing.
  std::size_t first_of(std::uint64_t address) const {
    const int sets = std::countr_zero(slots_.size() / ways);
    return ways * static_cast<std::size_t>(address * 0x9e3779b97f4a7c15 >> (64 - sets));
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (std::size_t i = old.size(); i-- > 0;) // the newest comes last, and so first
      if (old[i].used) put(old[i].address, std::move(old[i].value));
  }

  std::vector<Slot> slots_; // sets of four, each with the newest first
};

} // namespace uprobectl::symbolize
