// The GOT words that hold functions' addresses, as the loader's relocations name them.
#pragma once

#include "elf/dynamic.hpp"

namespace uprobectl::elf {

Result<std::vector<ImportSlot>> read_import_slots(const Layout& layout, const SymbolTable& symbols);

} // namespace uprobectl::elf
