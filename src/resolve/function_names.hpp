// Where a jump out of a function goes, by name.
#pragma once

#include "resolve/debug_source.hpp"

namespace uprobectl {

// Every symbol and PLT entry of an image by address, read once: a pass over the tables for each
// jump would take seconds where thousands of functions are asked for.
class JumpTargets {
public:
  // Brings the debug tables into the image where it has no .symtab.
  JumpTargets(elf::Image& image, DebugSource& source);

  // The part that the address belongs to of the function that begins at the other one: "f.cold",
  // "f.part.0" by any of its names.
  std::optional<elf::Symbol> part_at(VirtualAddress address, VirtualAddress function) const;
  // What has the function's name and ".cold" behind it: nothing may jump there but the unwinder.
  std::optional<elf::Symbol> cold_part_of(VirtualAddress function) const;
  // The closest symbol before the address that covers it.
  std::optional<elf::AddressRange> around(VirtualAddress address) const;
  // Whether any symbol or PLT entry covers the address.
  bool has_name(VirtualAddress address) const;
  // "g", "g@plt", "g+0x10", "vaddr:0x…".
  std::string name_at(VirtualAddress address) const;
  // What the loader puts into the word: "g". Nothing where no relocation names it.
  std::optional<std::string> name_in_slot(VirtualAddress slot) const;

private:
  bool is_part_of(std::string_view part, VirtualAddress function) const;
  // Visits the symbols that cover the address, the closest first, while it answers true.
  template <typename Visit>
  void visit_covering(VirtualAddress address, Visit visit) const;

  SymbolList symbols_;
  std::vector<std::size_t> cold_parts_; // of them, by name
  std::vector<elf::ImportSlot> slots_;  // by address
  elf::SymbolTable dynamic_;
};

} // namespace uprobectl
