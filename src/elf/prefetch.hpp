// SPDX-License-Identifier: Apache-2.0
// Prefetches symbols into the processor's cache. They lie scattered over megabytes, and waiting for
// the memory of one after the other takes a fifth of a long listing (docs/design/performance.md).
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::elf {

// Calls with an index that the table does not have do nothing.
struct Prefetch {
  // The name of an entry that at() or name() reads soon.
  static void name(const SymbolTable& table, std::uint32_t index);
  // The entry without its name, for readers that do not read in the order of the table.
  static void entry(const SymbolTable& table, std::uint32_t index);
  // Whatever find_dynamic() reads for some dozens of names.
  static void dynamic(const Image& image, std::span<const std::string_view> names);
};

} // namespace uprobectl::elf
