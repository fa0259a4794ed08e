// SPDX-License-Identifier: Apache-2.0
#include "symbols/code.hpp"

#include "uprobectl/symbols.hpp"

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
    // ".L" names are local labels of the compiler; assemblers normally drop them.
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

std::string_view to_string(SymbolKind kind) {
  switch (kind) {
  case SymbolKind::function:
    return "function";
  case SymbolKind::ifunc:
    return "ifunc";
  case SymbolKind::label:
    return "label";
  case SymbolKind::object:
    return "object";
  case SymbolKind::import:
    return "import";
  case SymbolKind::plt:
    return "plt";
  case SymbolKind::method:
    return "method";
  }
  return "object";
}

std::string_view to_string(elf::Binding binding) {
  switch (binding) {
  case elf::Binding::local:
    return "local";
  case elf::Binding::global:
    return "global";
  case elf::Binding::weak:
    return "weak";
  }
  return "local";
}

std::string_view to_string(elf::Table table) {
  switch (table) {
  case elf::Table::dynsym:
    return "dynsym";
  case elf::Table::symtab:
    return "symtab";
  case elf::Table::gnu_debugdata:
    return "gnu_debugdata";
  case elf::Table::debug_file:
    return "debug_file";
  case elf::Table::oat:
    return "oat";
  case elf::Table::plt:
    return "plt";
  }
  return "symtab";
}

SymbolKind kind_of(const elf::Symbol& symbol) {
  if (symbol.table == elf::Table::plt) return SymbolKind::plt;
  if (symbol.table == elf::Table::oat) return SymbolKind::method;
  if (!symbol.defined) return SymbolKind::import;
  switch (symbol.type) {
  case elf::SymbolType::function:
    return SymbolKind::function;
  case elf::SymbolType::ifunc:
    return SymbolKind::ifunc;
  case elf::SymbolType::none:
    return symbol.in_data ? SymbolKind::object : SymbolKind::label;
  case elf::SymbolType::object:
  case elf::SymbolType::section:
  case elf::SymbolType::file:
  case elf::SymbolType::tls:
  case elf::SymbolType::other:
    return SymbolKind::object;
  }
  return SymbolKind::object;
}

} // namespace uprobectl
