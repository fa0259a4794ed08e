#include "usdt/symbol_addresses.hpp"

#include <fmt/format.h>

namespace uprobectl {

namespace {

bool can_be_named(const elf::Symbol& symbol) {
  return symbol.defined && !symbol.name.empty() && symbol.type != elf::SymbolType::section &&
         symbol.type != elf::SymbolType::file;
}

std::string thread_local_problem(std::string_view name) {
  return fmt::format("'{}' is thread-local", name);
}

} // namespace

void SymbolAddresses::add(const elf::Symbol& symbol) {
  if (!can_be_named(symbol)) return;
  const Known fresh{.place = {symbol.address, symbol.absolute},
                    .in_each_thread = symbol.type == elf::SymbolType::tls};
  const auto [at, is_new] = known_.try_emplace(symbol.name, fresh);
  if (!is_new && at->second.place.address != symbol.address) at->second.several = true;
}

// All at once: of a file with thousands of probes each may name another symbol.
void SymbolAddresses::read_tables() {
  if (std::exchange(read_, true)) return;
  const auto read = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index)
      if (const auto symbol = table.at(index)) add(*symbol);
  };
  if (const auto table = image_.full_symbols()) read(*table);
  for (const elf::SymbolTable& table : image_.debug_symbols()) read(table);
}

std::expected<SymbolAddresses::Place, std::string> SymbolAddresses::find(std::string_view name) {
  bool imported = false;
  if (const auto symbols = image_.find_dynamic(name)) {
    for (const elf::Symbol& symbol : *symbols) {
      if (symbol.type == elf::SymbolType::tls) return std::unexpected(thread_local_problem(name));
      if (can_be_named(symbol)) return Place{symbol.address, symbol.absolute};
      imported = true;
    }
  }
  read_tables();
  const auto known = known_.find(name);
  missed_ = missed_ || known == known_.end();
  if (known == known_.end())
    return std::unexpected(imported ? fmt::format("'{}' lies in another file", name)
                                    : fmt::format("the file has no symbol '{}'", name));
  if (known->second.in_each_thread) return std::unexpected(thread_local_problem(name));
  if (known->second.several)
    return std::unexpected(fmt::format("the file has several symbols '{}'", name));
  return known->second.place;
}

} // namespace uprobectl
