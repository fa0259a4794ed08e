// SPDX-License-Identifier: Apache-2.0
// The types that values in Go's interfaces have, by the addresses of the descriptions that Go's
// runtime has of them. The linker writes these addresses into the debug information
// (DW_AT_go_runtime_type, an offset from runtime.types; cmd/link/internal/ld/dwarf.go).
#pragma once

#include "dwarf/types.hpp"

#include <map>

namespace uprobectl::dwarf {

class GoTypes {
public:
  // Reads the entries of all Go units. Empty if the image has no symbol runtime.types. Borrows
  // both.
  GoTypes(const elf::Image& image, const DebugInfo& info);

  struct Found {
    const Type* type = nullptr; // never null
    bool is_string = false;     // `string`, or a type that is declared as one
  };
  // Returns the type that the runtime describes at this address, as linked. nullopt if there is
  // none, or if the description in the file has another size or kind than the debug information.
  std::optional<Found> find(VirtualAddress address) const;
  bool is_empty() const { return entries_.empty(); }

private:
  struct Entry {
    std::uint64_t info_offset = 0; // in .debug_info
    std::uint64_t kind = 0;        // DW_AT_go_kind
  };
  bool is_described_at(VirtualAddress address, std::uint64_t size, std::uint64_t kind) const;

  const elf::Image& image_;
  const DebugInfo& info_;
  VirtualAddress types_;                   // runtime.types
  std::map<std::uint64_t, Entry> entries_; // by the offset from there
};

} // namespace uprobectl::dwarf
