// SPDX-License-Identifier: Apache-2.0
// An ELF image of debug sections, for targets whose input is the content of sections.
#pragma once

#include "uprobectl/util.hpp"

#include <algorithm>
#include <llvm/BinaryFormat/ELF.h>
#include <string>

namespace uprobectl::fuzz {

struct DebugSection {
  std::string_view name;
  Bytes content;
};

// Writes numbers of the image in its byte order.
template <typename T>
T in_order(T value, ByteOrder order) {
  if (order == ByteOrder::little) return value;
  T swapped = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    swapped = static_cast<T>(swapped | static_cast<T>((value >> (8 * i)) & 0xffU)
                                           << (8 * (sizeof value - 1 - i)));
  return swapped;
}

// Returns a 64-bit image with these sections and nothing else.
inline std::string debug_image(std::span<const DebugSection> sections, ByteOrder order) {
  using namespace llvm::ELF;
  const auto append = [](std::string& out, const auto& structure) {
    out.append(reinterpret_cast<const char*>(&structure), sizeof structure);
  };
  std::string names("\0.shstrtab\0", 11);
  std::string contents;
  std::string headers(sizeof(Elf64_Shdr), '\0');
  const auto add = [&](std::uint32_t name, std::uint32_t type, std::string_view content) {
    Elf64_Shdr header{};
    header.sh_name = in_order(name, order);
    header.sh_type = in_order(type, order);
    header.sh_offset = in_order<Elf64_Off>(sizeof(Elf64_Ehdr) + contents.size(), order);
    header.sh_size = in_order<Elf64_Xword>(content.size(), order);
    contents += content;
    append(headers, header);
  };
  for (const DebugSection& section : sections) {
    const auto at = static_cast<std::uint32_t>(names.size());
    names.append(section.name).push_back('\0');
    add(at, SHT_PROGBITS,
        {reinterpret_cast<const char*>(section.content.data()), section.content.size()});
  }
  add(1, SHT_STRTAB, names);

  Elf64_Ehdr file{};
  std::ranges::copy(std::string_view(ElfMagic), file.e_ident);
  file.e_ident[EI_CLASS] = ELFCLASS64;
  file.e_ident[EI_DATA] = order == ByteOrder::little ? ELFDATA2LSB : ELFDATA2MSB;
  file.e_ident[EI_VERSION] = EV_CURRENT;
  file.e_type = in_order<Elf64_Half>(ET_DYN, order);
  file.e_machine = in_order<Elf64_Half>(EM_X86_64, order);
  file.e_version = in_order<Elf64_Word>(EV_CURRENT, order);
  file.e_ehsize = in_order<Elf64_Half>(sizeof(Elf64_Ehdr), order);
  file.e_shoff = in_order<Elf64_Off>(sizeof(Elf64_Ehdr) + contents.size(), order);
  file.e_shentsize = in_order<Elf64_Half>(sizeof(Elf64_Shdr), order);
  file.e_shnum = in_order(static_cast<Elf64_Half>(sections.size() + 2), order);
  file.e_shstrndx = in_order(static_cast<Elf64_Half>(sections.size() + 1), order);
  std::string image;
  append(image, file);
  return image + contents + headers;
}

} // namespace uprobectl::fuzz
