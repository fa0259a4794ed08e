// SPDX-License-Identifier: Apache-2.0
// The relocations of the loader, in every form that PT_DYNAMIC may have: DT_JMPREL, DT_RELA and
// DT_REL, and Android's packed ones, DT_ANDROID_RELA and DT_ANDROID_REL. Those of DT_RELR are left
// out: they are all relative, and the word itself has the value.
#pragma once

#include "elf/dynamic_table.hpp"
#include "elf/elf_types.hpp"

namespace uprobectl::elf {

struct Relocation {
  VirtualAddress address;
  std::uint32_t symbol = 0;                 // index in .dynsym; 0: none
  std::uint32_t type = 0;                   // of the machine
  std::optional<std::uint64_t> addend = {}; // without it the word has it
};

// Reads packed relocations ("APS2"; Android bionic/linker/linker_reloc_iterators.h).
class PackedRelocations {
public:
  // `has_addends`: of DT_ANDROID_RELA. Bytes of another format have no relocations.
  PackedRelocations(Bytes bytes, bool is_64bit, bool has_addends);

  // Returns nullopt after the last one, and where the bytes are damaged. A group may stand for any
  // number of relocations: at most `max_count` are returned.
  std::optional<Relocation> next(std::uint64_t max_count);

private:
  // Returns the next number. If there is none, sets left_ to 0.
  std::uint64_t take();
  bool begin_group();

  Bytes bytes_;
  bool is_64bit_;
  bool has_addends_;
  std::uint64_t at_ = 0;       // in bytes_
  std::uint64_t left_ = 0;     // relocations
  std::uint64_t returned_ = 0; // likewise
  std::uint64_t in_group_ = 0; // that are left in the group
  std::uint64_t flags_ = 0;    // of the group
  std::uint64_t step_ = 0;     // between the addresses of the group
  std::uint64_t address_ = 0;
  std::uint64_t info_ = 0;
  std::uint64_t addend_ = 0;
};

// Calls visit(Relocation) for those of each table in the order of the first comment. Entries of a
// truncated table that are in the file are visited.
template <typename Visit>
void for_each_relocation(const Layout& layout, const DynamicTable& table, const Visit& visit) {
  const auto bytes_of = [&](const std::optional<VirtualAddress>& address, std::uint64_t size) {
    const auto bytes = address ? bytes_from(layout, *address) : std::nullopt;
    return bytes ? bytes->first(std::min<std::uint64_t>(bytes->size(), size)) : Bytes();
  };
  const auto visit_packed = [&](Bytes bytes, bool has_addends) {
    // A relocation is of a word of the file.
    const std::uint64_t max_count = layout.bytes.size() / (layout.machine.is_64bit ? 8 : 4);
    PackedRelocations packed(bytes, layout.machine.is_64bit, has_addends);
    while (const auto relocation = packed.next(max_count)) visit(*relocation);
  };
  with_elf_type(layout.machine, [&]<class ELFT>() {
    constexpr bool is_mips64el = false; // no such architecture is supported
    const auto visit_rela = [&](Bytes bytes) {
      for (const auto& each : views_in<typename ELFT::Rela>(bytes))
        visit(Relocation{{each.r_offset},
                         each.getSymbol(is_mips64el),
                         each.getType(is_mips64el),
                         static_cast<std::uint64_t>(std::int64_t{each.r_addend})});
    };
    const auto visit_rel = [&](Bytes bytes) {
      for (const auto& each : views_in<typename ELFT::Rel>(bytes))
        visit(Relocation{
            {each.r_offset}, each.getSymbol(is_mips64el), each.getType(is_mips64el), {}});
    };
    const Bytes plt = bytes_of(table.plt_relocations, table.plt_relocations_size);
    if (table.plt_relocation_type == raw::DT_RELA)
      visit_rela(plt);
    else
      visit_rel(plt);
    visit_rela(bytes_of(table.rela, table.rela_size));
    visit_rel(bytes_of(table.rel, table.rel_size));
  });
  visit_packed(bytes_of(table.packed_rela, table.packed_rela_size), true);
  visit_packed(bytes_of(table.packed_rel, table.packed_rel_size), false);
}

} // namespace uprobectl::elf
