// Counts DW_TAG_inlined_subroutine (DWARF 5, 3.3.8.2) by the name of what is inlined.
#pragma once

#include "elf/dwarf_unit.hpp"

namespace uprobectl::elf {

// As count_inlined in uprobectl/elf/inlined.hpp. Units that cannot be read are passed over; where
// one does not say where the next begins, or entries take more work than such a size can be worth,
// it ends, and what was found till then counts.
std::vector<std::optional<std::uint64_t>>
count_inlined_places(const DwarfSections& sections, std::span<const std::string_view> names);

} // namespace uprobectl::elf
