// SPDX-License-Identifier: Apache-2.0
// Names the places that jumps out of functions lead to.
#pragma once

#include "resolve/debug_source.hpp"

namespace uprobectl {

// The symbols and PLT entries of an image by address, read once: with a pass over the tables for
// each jump, thousands of functions would take seconds.
class JumpTargets {
public:
  // Adds the debug tables to the image if it has no .symtab.
  JumpTargets(elf::Image& image, DebugSource& source);

  // The part at the address ("f.cold", "f.part.0") of the function that begins at `function`, by
  // any of the function's names.
  std::optional<elf::Symbol> part_at(VirtualAddress address, VirtualAddress function) const;
  // The symbol with the function's name and ".cold" behind it. Perhaps only the unwinder enters it.
  std::optional<elf::Symbol> find_cold_part(VirtualAddress function) const;
  // The range of the closest symbol that covers the address.
  std::optional<elf::AddressRange> symbol_range_at(VirtualAddress address) const;
  // Whether any symbol or PLT entry covers the address.
  bool has_name(VirtualAddress address) const;
  // "g", "g@plt", "g+0x10", "vaddr:0x…".
  std::string name_at(VirtualAddress address) const;
  // The symbol whose address the loader writes to the slot, "g"; nullopt if no relocation has one.
  std::optional<std::string> name_in_slot(VirtualAddress slot) const;

private:
  bool is_part_of(std::string_view part, VirtualAddress function) const;
  // Visits the symbols that cover the address, the closest first, until visit returns false.
  template <typename Visit>
  void visit_covering(VirtualAddress address, Visit visit) const;

  SymbolList symbols_;
  std::vector<std::size_t> cold_parts_; // indexes of symbols_, by name
  std::vector<elf::ImportSlot> slots_;  // by address
  elf::SymbolTable dynamic_;
};

} // namespace uprobectl
