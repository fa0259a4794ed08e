#include "symbols/code.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace uprobectl {

namespace {

// "f", "f@V" or "f@@V" taken apart.
struct Wanted {
  std::string_view name;
  std::optional<std::string_view> version;
  bool default_only = false;
};

Wanted split(std::string_view text) {
  const std::size_t at = text.find('@', 1);
  if (at == std::string_view::npos) return {text, std::nullopt, false};
  const bool default_only = text.substr(at).starts_with("@@");
  return {text.substr(0, at), text.substr(at + (default_only ? 2 : 1)), default_only};
}

// "f@@GLIBC" takes any version that starts so, the default one if it does, unless one is called
// exactly that.
void keep_version(std::vector<elf::Symbol>& symbols, const Wanted& wanted) {
  if (!wanted.version) return;
  const auto is_named_so = [&](const elf::Symbol& symbol) {
    return symbol.version && symbol.version->name == *wanted.version;
  };
  const auto is_default = [](const elf::Symbol& symbol) {
    return symbol.version && symbol.version->is_default;
  };
  if (!wanted.default_only || std::ranges::any_of(symbols, is_named_so)) {
    std::erase_if(symbols, [&](const elf::Symbol& symbol) {
      return !is_named_so(symbol) || (wanted.default_only && !is_default(symbol));
    });
    return;
  }
  std::erase_if(symbols, [&](const elf::Symbol& symbol) {
    return !symbol.version || !symbol.version->name.starts_with(*wanted.version);
  });
  if (std::ranges::any_of(symbols, is_default))
    std::erase_if(symbols, [&](const elf::Symbol& symbol) { return !is_default(symbol); });
}

std::vector<elf::Symbol> definitions_first(const std::vector<elf::Symbol>& symbols) {
  std::vector<elf::Symbol> ordered;
  for (const bool defined : {true, false})
    for (const elf::Symbol& symbol : symbols)
      if (symbol.defined == defined) ordered.push_back(symbol);
  return ordered;
}

// The symbols of a table that a FUNCTION may mean, found by a scan.
std::vector<elf::Symbol> scan(const elf::SymbolTable& table, const Wanted& wanted,
                              const elf::Machine& machine) {
  std::vector<elf::Symbol> symbols;
  for (std::uint32_t index = 1; index < table.size(); ++index) {
    if (!table.has_name(index, wanted.name)) continue;
    const auto symbol = table.at(index);
    if (symbol && symbol->name == wanted.name && is_named(*symbol, machine))
      symbols.push_back(*symbol);
  }
  keep_version(symbols, wanted);
  return symbols;
}

void add_unknown(std::vector<elf::Symbol>& symbols, const std::vector<elf::Symbol>& more) {
  const auto place = [](const elf::Symbol& symbol) {
    return std::tuple(symbol.address.value, symbol.defined, symbol.type);
  };
  std::set<std::tuple<std::uint64_t, bool, elf::SymbolType>> known;
  for (const elf::Symbol& symbol : symbols) known.insert(place(symbol));
  for (const elf::Symbol& symbol : more)
    if (known.insert(place(symbol)).second) symbols.push_back(symbol);
}

} // namespace

void expect_names(const elf::Image& image, std::span<const std::string_view> names) {
  std::vector<std::string_view> wanted;
  wanted.reserve(names.size());
  for (const std::string_view name : names) wanted.push_back(split(name).name);
  image.expect_dynamic(wanted);
}

namespace {

Result<std::vector<elf::Symbol>> find_wanted(const elf::Image& image, const Wanted& wanted) {
  auto found = image.find_dynamic(wanted.name);
  if (!found) return found;
  std::erase_if(*found,
                [&](const elf::Symbol& symbol) { return !is_named(symbol, image.machine()); });
  keep_version(*found, wanted);

  // Data of this name in .dynsym does not hide a static function in .symtab, nor an import one in a
  // debug file.
  const auto has_code = [&] {
    return std::ranges::any_of(*found,
                               [&](const elf::Symbol& symbol) { return is_code(symbol, image); });
  };
  if (!has_code()) {
    const auto table = image.full_symbols();
    if (!table) return fail(table.error());
    add_unknown(*found, scan(*table, wanted, image.machine()));
  }
  for (const elf::SymbolTable& table : image.debug_symbols())
    if (!has_code()) add_unknown(*found, scan(table, wanted, image.machine()));
  // Mostly they stand so already. (std::stable_partition of libstdc++ 12 uses what C++17 has
  // deprecated, which clang refuses.)
  if (std::ranges::is_partitioned(*found, &elf::Symbol::defined)) return found;
  return definitions_first(*found);
}

} // namespace

Result<std::vector<elf::Symbol>> find_by_name(const elf::Image& image, std::string_view name) {
  const Wanted wanted = split(name);
  auto found = find_wanted(image, wanted);
  // The '@' may be the name's own.
  if (found && found->empty() && wanted.version)
    return find_wanted(image, {.name = name, .version = std::nullopt});
  return found;
}

} // namespace uprobectl
