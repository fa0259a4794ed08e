#include "symbols/code.hpp"

namespace uprobectl {

bool is_mapping_symbol(const elf::Symbol& symbol, const elf::Machine& machine) {
  const MappingSymbols form = machine.info().mapping_symbols;
  if (form == MappingSymbols::none) return false;
  const auto name = symbol.name;
  if (symbol.type != elf::SymbolType::none || name.size() < 2 || name[0] != '$') return false;
  if (std::string_view("adtx").find(name[1]) == std::string_view::npos) return false;
  return name.size() == 2 || name[2] == '.' || form == MappingSymbols::with_isa;
}

bool is_named(const elf::Symbol& symbol, const elf::Machine& machine) {
  if (symbol.name.empty()) return false;
  if (symbol.type == elf::SymbolType::section || symbol.type == elf::SymbolType::file) return false;
  return !is_mapping_symbol(symbol, machine);
}

bool is_code(const elf::Symbol& symbol, const elf::Image& image) {
  if (!symbol.defined || symbol.absolute) return false;
  switch (symbol.type) {
  case elf::SymbolType::function:
  case elf::SymbolType::ifunc:
    break;
  case elf::SymbolType::none:
    // ".L" names are the compiler's own; an assembler drops them unless told not to.
    if (symbol.name.starts_with(".L") || symbol.in_data) return false;
    break;
  case elf::SymbolType::object:
  case elf::SymbolType::section:
  case elf::SymbolType::file:
  case elf::SymbolType::tls:
  case elf::SymbolType::other:
    return false;
  }
  if (!is_named(symbol, image.machine())) return false;
  const elf::Segment* segment = image.segment_of(symbol.address);
  return segment != nullptr && segment->executable;
}

} // namespace uprobectl
