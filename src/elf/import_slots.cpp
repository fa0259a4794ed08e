#include "elf/import_slots.hpp"

#include <algorithm>

namespace uprobectl::elf {

namespace {

struct SlotTypes {
  std::uint32_t jump_slot;
  std::uint32_t glob_dat;
};

// Of each machine's processor supplement.
std::optional<SlotTypes> slot_types(const Machine& machine) {
  switch (machine.id) {
  case raw::EM_X86_64:
    return SlotTypes{raw::R_X86_64_JUMP_SLOT, raw::R_X86_64_GLOB_DAT};
  case raw::EM_386:
    return SlotTypes{raw::R_386_JUMP_SLOT, raw::R_386_GLOB_DAT};
  case raw::EM_AARCH64:
    return SlotTypes{raw::R_AARCH64_JUMP_SLOT, raw::R_AARCH64_GLOB_DAT};
  case raw::EM_ARM:
    return SlotTypes{raw::R_ARM_JUMP_SLOT, raw::R_ARM_GLOB_DAT};
  default:
    return std::nullopt;
  }
}

struct Relocation {
  std::uint64_t address = 0;
  std::uint32_t type = 0;
  std::uint32_t symbol = 0; // index in .dynsym
};

// Elf32_Rel, Elf32_Rela, Elf64_Rel and Elf64_Rela begin with r_offset and r_info (gABI chapter 4).
std::optional<Relocation> read_relocation(Bytes bytes, std::uint64_t at, const Machine& machine) {
  if (machine.is_64bit) {
    const auto address = read_at<std::uint64_t>(bytes, at, machine.order);
    const auto info = read_at<std::uint64_t>(bytes, at + 8, machine.order);
    if (!address || !info) return std::nullopt;
    return Relocation{*address, static_cast<std::uint32_t>(*info),
                      static_cast<std::uint32_t>(*info >> 32)};
  }
  const auto address = read_at<std::uint32_t>(bytes, at, machine.order);
  const auto info = read_at<std::uint32_t>(bytes, at + 4, machine.order);
  if (!address || !info) return std::nullopt;
  return Relocation{*address, *info & 0xff, *info >> 8};
}

bool may_be_function(const Symbol& symbol) {
  return symbol.type == SymbolType::function || symbol.type == SymbolType::ifunc ||
         symbol.type == SymbolType::none;
}

class SlotReader {
public:
  SlotReader(const Layout& layout, SlotTypes types, SymbolTable symbols)
      : layout_(layout), types_(types), symbols_(std::move(symbols)) {}

  void read(const std::optional<VirtualAddress>& table, std::uint64_t size, bool has_addend) {
    if (!table) return;
    const auto bytes = bytes_from(layout_, *table);
    if (!bytes) return;
    const Bytes entries = bytes->first(std::min<std::uint64_t>(bytes->size(), size));
    const std::uint64_t word = layout_.machine.is_64bit ? 8 : 4;
    const std::uint64_t step = word * (has_addend ? 3 : 2);
    // Memory that is not used is never touched, but growing step by step would touch twice what is.
    slots_.reserve(slots_.size() + entries.size() / step);
    for (std::uint64_t at = 0; slice(entries, at, step); at += step) add(entries, at);
  }

  std::vector<ImportSlot> take() { return std::move(slots_); }

private:
  void add(Bytes entries, std::uint64_t at) {
    const auto relocation = read_relocation(entries, at, layout_.machine);
    if (!relocation || relocation->symbol == 0) return;
    if (relocation->type != types_.jump_slot && relocation->type != types_.glob_dat) return;
    const auto symbol = symbols_.at(relocation->symbol);
    if (!symbol || symbol->name.empty() || !may_be_function(*symbol)) return;
    slots_.push_back(
        {{relocation->address}, relocation->symbol, relocation->type == types_.jump_slot});
  }

  const Layout& layout_;
  SlotTypes types_;
  SymbolTable symbols_;
  std::vector<ImportSlot> slots_;
};

} // namespace

Result<std::vector<ImportSlot>> read_import_slots(const Layout& layout,
                                                  const SymbolTable& symbols) {
  const auto types = slot_types(layout.machine);
  const auto dynamic = read_dynamic(layout);
  if (!dynamic) return fail(dynamic.error());
  if (!types || !*dynamic) return std::vector<ImportSlot>();

  const DynamicTable& table = **dynamic;
  SlotReader reader(layout, *types, symbols);
  reader.read(table.plt_relocations, table.plt_relocations_size,
              table.plt_relocation_type == raw::DT_RELA);
  reader.read(table.rela, table.rela_size, true);
  reader.read(table.rel, table.rel_size, false);
  return reader.take();
}

} // namespace uprobectl::elf
