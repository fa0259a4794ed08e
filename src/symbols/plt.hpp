// PLT entries, named by the slot they jump through.
#pragma once

#include "uprobectl/symbols.hpp"

namespace uprobectl {

// The entry that covers the address. Decodes only the bytes around it.
std::optional<elf::Symbol> plt_entry_at(const elf::Image& image, VirtualAddress address);

} // namespace uprobectl
