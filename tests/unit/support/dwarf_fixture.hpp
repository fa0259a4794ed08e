// SPDX-License-Identifier: Apache-2.0
// Images with debug information.
#pragma once

#include "elf_fixture.hpp"

namespace uprobectl::test {

// A library of /src/engine.cpp. `outer` has the code from 0x1000 to 0x1040: line 30 from 0x1000,
// and from 0x1010 to 0x1020 `middle(int)`, called in line 33, column 7; from 0x1014 to 0x1018
// `tiny(int)`, called by that in line 22, with its line 12, column 3; line 0 from 0x1020; line 35
// from 0x1030. `plain`, from 0x1080 to 0x1090, is a symbol that no unit has.
std::string inlining_elf();

// An image without code that has these sections.
struct SectionBytes {
  std::string_view name;
  std::string_view content;
};
std::string elf_with_sections(std::initializer_list<SectionBytes> sections,
                              std::string_view data = "ELFDATA2LSB");

} // namespace uprobectl::test
