// SPDX-License-Identifier: Apache-2.0
// Prefetches symbols into the processor's cache. They lie scattered over megabytes, and waiting for
// the memory of one after the other takes a fifth of a long listing (docs/design/performance.md).
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::elf {

// Functions with an index do nothing if the table has no such entry.
struct Prefetch {
  // Prefetches the name of an entry that at() or name() reads soon.
  static void name(const SymbolTable& table, std::uint32_t index);
  // Prefetches the entry without its name, for readers that do not follow the order of the table.
  static void entry(const SymbolTable& table, std::uint32_t index);
  // Prefetches what find_dynamic() reads for some dozens of names.
  static void dynamic(const Image& image, std::span<const std::string_view> names);
};

} // namespace uprobectl::elf
