#include "uprobectl/symbols.hpp"

namespace uprobectl {

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
