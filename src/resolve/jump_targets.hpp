// SPDX-License-Identifier: Apache-2.0
// Names the addresses that jumps out of functions lead to.
#pragma once

#include "binary/binary.hpp"

namespace uprobectl::resolve {

// An index of an image's symbols and PLT entries by address, with all names of each address.
// Binary::symbol_at() is not enough: that chooses one name, as frames have it, and lets a
// label cover all code up to the next symbol. A jump leads to a part by any of the names of its
// function, and to a label only if it leads to its first byte.
class JumpTargets {
public:
  // Adds the debug tables to the image if it has no .symtab.
  explicit JumpTargets(binary::Binary& file);

  // Returns the part at the address ("f.cold", "f.part.0") of the function that begins at
  // `function`, by any of the function's names.
  std::optional<elf::Symbol> part_at(VirtualAddress address, VirtualAddress function) const;
  // Returns the symbol named after the function with the suffix ".cold". The function may have no
  // jump to it, for example if only exception handling enters it.
  std::optional<elf::Symbol> find_cold_part(VirtualAddress function) const;
  // Returns the range of the closest symbol that covers the address.
  std::optional<elf::AddressRange> symbol_range_at(VirtualAddress address) const;
  // Whether any symbol or PLT entry covers the address.
  bool has_name(VirtualAddress address) const;
  // Returns "g", "g@plt", "g+0x10", or "vaddr:0x…" without a symbol.
  std::string name_at(VirtualAddress address) const;
  // Returns the symbol whose address the loader writes to the GOT slot; nullopt without a
  // relocation for the slot.
  std::optional<std::string> name_in_slot(VirtualAddress slot) const;
  // Returns the address of that symbol if the image defines it, and not by a resolver (IFUNC).
  std::optional<VirtualAddress> definition_in_slot(VirtualAddress slot) const;
  // Whether that symbol is one of another file.
  bool is_import_slot(VirtualAddress slot) const;

private:
  std::optional<elf::Symbol> symbol_in_slot(VirtualAddress slot) const;
  bool is_part_of(std::string_view part, VirtualAddress function) const;
  // Visits the symbols that cover the address, the closest first, until visit returns false.
  template <typename Visit>
  void visit_covering(VirtualAddress address, Visit visit) const;

  symbols::SymbolList symbols_;
  std::vector<std::size_t> cold_parts_; // indexes of symbols_, by name
  std::vector<elf::ImportSlot> slots_;  // by address
  elf::SymbolTable dynamic_;
};

} // namespace uprobectl::resolve
