// SPDX-License-Identifier: Apache-2.0
// Debug information byte by byte, for sections of dwarf_fixture.hpp.
#pragma once

#include "uprobectl/util.hpp"

#include <llvm/BinaryFormat/Dwarf.h>
#include <string>

namespace uprobectl::test {

// DWARF as text: numbers of a size, LEB128 of one byte, texts.
struct Data {
  std::string bytes;
  ByteOrder order = ByteOrder::little;

  Data& number(unsigned size, std::uint64_t value) {
    for (unsigned i = 0; i < size; ++i)
      bytes += static_cast<char>(value >> (8 * (order == ByteOrder::little ? i : size - 1 - i)));
    return *this;
  }
  Data& leb(std::uint64_t value) {
    for (; value > 0x7f; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7f));
    bytes += static_cast<char>(value);
    return *this;
  }
  Data& text(std::string_view value) {
    bytes += value;
    bytes += '\0';
    return *this;
  }
  Data& abbreviation(std::uint64_t code, std::uint64_t tag,
                     std::initializer_list<std::pair<std::uint64_t, std::uint64_t>> attributes,
                     std::uint64_t children = llvm::dwarf::DW_CHILDREN_no) {
    leb(code).leb(tag).number(1, children);
    for (const auto& [name, form] : attributes) leb(name).leb(form);
    return number(2, 0);
  }
};

// A unit of version 4 or 5 with the 32-bit format; the abbreviations begin their section.
inline std::string unit(unsigned version, const Data& entries,
                        std::uint64_t type = llvm::dwarf::DW_UT_compile) {
  Data unit{.bytes = {}, .order = entries.order};
  const std::uint64_t header = version == 5 ? 8 : 7;
  unit.number(4, header + entries.bytes.size()).number(2, version);
  if (version == 5)
    unit.number(1, type).number(1, 8).number(4, 0);
  else
    unit.number(4, 0).number(1, 8);
  return unit.bytes + entries.bytes;
}
constexpr std::uint64_t first_of_version_4 = 11; // the offset of the first unit's first entry
constexpr std::uint64_t first_of_version_5 = 12;

} // namespace uprobectl::test
