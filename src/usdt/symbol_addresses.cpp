#include "usdt/symbol_addresses.hpp"

#include <fmt/format.h>

namespace uprobectl {

void SymbolAddresses::add(const elf::Symbol& symbol) {
  if (symbol.name.empty() || symbol.type == elf::SymbolType::section ||
      symbol.type == elf::SymbolType::file)
    return;
  const Known fresh{.place = {symbol.address, symbol.absolute},
                    .imported = !symbol.defined,
                    .function = symbol.type == elf::SymbolType::function,
                    .in_each_thread = symbol.type == elf::SymbolType::tls};
  const auto [at, is_new] = known_.try_emplace(symbol.name, fresh);
  if (is_new || fresh.imported) return;
  if (at->second.imported || (at->second.function && !fresh.function))
    at->second = fresh;
  else if (at->second.function == fresh.function && at->second.place.address != symbol.address)
    at->second.several = true;
}

// All at once: of a file with thousands of probes each may name another symbol.
void SymbolAddresses::read_tables() {
  if (std::exchange(read_, true)) return;
  const auto read = [&](const elf::SymbolTable& table) {
    for (std::uint32_t index = 1; index < table.size(); ++index)
      if (const auto symbol = table.at(index)) add(*symbol);
  };
  if (const auto table = image_.dynamic_symbols()) read(*table);
  if (const auto table = image_.full_symbols()) read(*table);
  for (const elf::SymbolTable& table : image_.debug_symbols()) read(table);
}

std::expected<SymbolAddresses::Place, std::string> SymbolAddresses::find(std::string_view name) {
  read_tables();
  const auto known = known_.find(name);
  missed_ = missed_ || known == known_.end() || known->second.imported;
  if (known == known_.end())
    return std::unexpected(fmt::format("the file has no symbol '{}'", name));
  if (known->second.imported)
    return std::unexpected(fmt::format("'{}' lies in another file", name));
  if (known->second.in_each_thread)
    return std::unexpected(fmt::format("'{}' is thread-local", name));
  if (known->second.several)
    return std::unexpected(fmt::format("the file has several symbols '{}'", name));
  return known->second.place;
}

} // namespace uprobectl
