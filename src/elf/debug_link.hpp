#pragma once

#include "elf/layout.hpp"

namespace uprobectl::elf {

// .gnu_debuglink: a file name, zeros up to a multiple of four, the CRC-32 of that file (GDB manual,
// "Separate Debug Files").
struct DebugLink {
  std::string name; // without folders
  std::uint32_t crc32 = 0;
};

// Nothing where the section is missing or malformed.
std::optional<DebugLink> read_debug_link(const Layout& layout);

std::uint32_t crc32_of(Bytes bytes);

} // namespace uprobectl::elf
