// Sections of debug information, which compilers and linkers may compress.
#pragma once

#include "elf/sections.hpp"

namespace uprobectl::elf {

struct SectionContent {
  Bytes bytes;
  std::shared_ptr<const void> owner = {}; // of the bytes, where they were inflated
};

// What a section holds: inflated where it is compressed (SHF_COMPRESSED, or the form before it, in
// which .debug_frame is called .zdebug_frame). Nothing if there is no such section; corrupt for
// damaged data, unsupported for another compression than zlib and beyond `most` bytes.
Result<std::optional<SectionContent>> section_content(const Layout& layout, std::string_view name,
                                                      std::uint64_t most);

} // namespace uprobectl::elf
