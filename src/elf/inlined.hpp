// SPDX-License-Identifier: Apache-2.0
// Counts the places where compilers have inlined functions: a probe at a function does not see the
// calls that were inlined.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::elf {

// Maximum size of .debug_info, bytes: takes about a second.
constexpr std::uint64_t max_debug_info = 200 << 20;

// Returns the number of places where each function is inlined, in the order of the names (raw, as
// in symbol tables); nullopt for functions that the debug information does not describe. Reads the
// debug information of the image or, if it has none, of its debug file: DWARF 2 to 5, but no split
// units (.dwo) and no alternate file (.gnu_debugaltlink). Fails with not_found without debug
// information, and with unsupported if it is larger than max_debug_info.
Result<std::vector<std::optional<std::uint64_t>>>
count_inlined(const Image& image, const DebugSearch& where,
              std::span<const std::string_view> names);

// The content of the DWARF sections; empty for missing ones.
struct DwarfSections {
  Bytes info;
  Bytes abbrev;
  Bytes str;
  Bytes line_str;
  Bytes str_offsets;
  ByteOrder order = ByteOrder::little;
};

// Same, for the content of the sections. Skips invalid units. Stops early and returns the counts so
// far if the next unit cannot be located, or if parsing takes more steps than is plausible for the
// size of the sections.
std::vector<std::optional<std::uint64_t>>
count_inlined_places(const DwarfSections& sections, std::span<const std::string_view> names);

} // namespace uprobectl::elf
