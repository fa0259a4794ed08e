// PLT entries, named by the slot they jump through.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

struct PltEntry {
  VirtualAddress address;   // where callers enter it
  std::uint16_t size = 0;   // bytes
  std::uint32_t symbol = 0; // index in .dynsym of what its slot is for
};

// By address. See plt_entries() in symbols.hpp.
std::vector<PltEntry> find_plt_entries(const elf::Image& image);
// The entry as a symbol, from that of its slot.
elf::Symbol plt_symbol(elf::Symbol symbol, const PltEntry& entry);

// The entry that covers the address. Decodes only the bytes around it.
std::optional<elf::Symbol> plt_entry_at(const elf::Image& image, VirtualAddress address);

} // namespace uprobectl
