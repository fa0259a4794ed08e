// SPDX-License-Identifier: Apache-2.0
// The relocations of object files (ET_REL): a compiler leaves it to the linker to fill in the
// offsets in debug sections. Nobody links a BPF object.
#pragma once

#include "elf/sections.hpp"

namespace uprobectl::elf {

// Returns the content of the section with this name, inflated if it was compressed, with its
// relocations applied. The content of other files than objects is returned as it is. Fails with
// corrupt if a relocation is damaged or outside of the section, and with unsupported for one that
// debug sections of this machine do not have.
Result<SectionContent> relocate_section(const Layout& layout, std::string_view name,
                                        SectionContent content);

} // namespace uprobectl::elf
