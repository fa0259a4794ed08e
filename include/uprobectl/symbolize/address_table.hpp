// SPDX-License-Identifier: Apache-2.0
// A bounded cache of values by address. Stacks contain the same addresses again and again, and the
// memory of a long run must not grow.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace uprobectl::symbolize {

// A four-way set-associative cache. If all four slots for an address are in use, the table grows,
// up to 4096 slots; then the oldest of the four is replaced.
template <typename Value>
class AddressTable {
public:
  // Returns the value; null if the address is not in the table. Valid until the next put().
  Value* find(std::uint64_t address) {
    if (slots_.empty()) return nullptr;
    Slot* const slot = &slots_[set_begin(address)];
    for (std::size_t i = 0; i < ways; ++i)
      if (slot[i].used && slot[i].address == address) return &slot[i].value;
    return nullptr;
  }

  // Adds an address that is not in the table. The result is valid until the next put().
  Value& put(std::uint64_t address, Value value) {
    if (slots_.empty()) slots_.resize(first_size);
    while (slots_.size() < max_slots && slots_[set_begin(address) + ways - 1].used) grow();
    Slot* const slot = &slots_[set_begin(address)];
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

  // Fibonacci hashing: the upper bits of the product with 2^64 / golden ratio. If the table
  // doubles, each set of four is split into two sets, so no value is lost.
  std::size_t set_begin(std::uint64_t address) const {
    const int sets = std::countr_zero(slots_.size() / ways);
    return ways * static_cast<std::size_t>(address * 0x9e3779b97f4a7c15 >> (64 - sets));
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (std::size_t i = old.size(); i-- > 0;) // the newest last, so that it is first in its set
      if (old[i].used) put(old[i].address, std::move(old[i].value));
  }

  std::vector<Slot> slots_; // sets of four, each with the newest first
};

} // namespace uprobectl::symbolize
