// SPDX-License-Identifier: Apache-2.0
// Reads packed relocations from any bytes. The first byte chooses the kind of image. Checks that
// the maximum number of relocations is kept.
#include "elf/relocations.hpp"

#include <cstdlib>

using namespace uprobectl;

int fuzz_relocations(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool is_64bit = (data[0] & 1U) != 0;
  const bool has_addends = (data[0] & 2U) != 0;
  elf::PackedRelocations packed({reinterpret_cast<const std::byte*>(data) + 1, size - 1}, is_64bit,
                                has_addends);
  constexpr std::uint64_t max_count = 1000;
  std::uint64_t count = 0;
  while (const auto each = packed.next(max_count)) {
    if (++count > max_count || each->addend.has_value() != has_addends) std::abort();
    if (!is_64bit && (each->address.value >> 32U != 0 || each->symbol >> 24U != 0)) std::abort();
  }
  return 0;
}
