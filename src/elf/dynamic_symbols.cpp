#include "elf/dynamic_symbols.hpp"

#include "elf/elf_types.hpp"
#include "elf/sections.hpp"

#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

// Versions have 15 bits, so a name occurs no more often than that in an honest table.
constexpr std::size_t most_matches = 32768;

std::optional<SysvHashTable> read_sysv_hash(const Layout& layout, const DynamicTable& dynamic) {
  if (!dynamic.hash) return std::nullopt;
  const auto bytes = bytes_from(layout, *dynamic.hash);
  if (!bytes) return std::nullopt;
  return SysvHashTable::read(*bytes, layout.machine);
}

std::optional<GnuHashTable> read_gnu_hash(const Layout& layout, const DynamicTable& dynamic) {
  if (!dynamic.gnu_hash) return std::nullopt;
  const auto bytes = bytes_from(layout, *dynamic.gnu_hash);
  if (!bytes) return std::nullopt;
  return GnuHashTable::read(*bytes, layout.machine);
}

// Trailing bytes that are no symbols are cut off by counted().
Result<SymbolTable::Parts> uncounted_parts(const Layout& layout, const DynamicTable& dynamic) {
  const std::uint64_t size = symbol_size(layout.machine);
  if (dynamic.symbol_size != 0 && dynamic.symbol_size != size)
    return fail(ErrorKind::corrupt,
                fmt::format("DT_SYMENT says {} bytes where {} are due", dynamic.symbol_size, size));
  const auto entries = bytes_from(layout, *dynamic.symbols);
  if (!entries) return fail(unmapped(layout, "DT_SYMTAB", *dynamic.symbols));
  const auto strings = dynamic_strings(layout, dynamic);
  if (!strings) return fail(strings.error());

  SymbolTable::Parts parts{layout.machine, Table::dynsym, *entries, *strings, {}, nullptr};
  if (dynamic.versions)
    if (const auto versions = bytes_from(layout, *dynamic.versions)) {
      parts.versions = *versions;
      parts.version_names = std::make_shared<const std::vector<VersionName>>(
          read_version_names(layout, dynamic, *strings));
    }
  return parts;
}

SymbolTable counted(SymbolTable::Parts parts, std::uint64_t count) {
  const std::uint64_t size = symbol_size(parts.machine);
  const std::uint64_t available = parts.entries.size() / size;
  parts.entries = parts.entries.first(std::min(count, available) * size);
  return SymbolTable(std::move(parts));
}

void add_if_named(const SymbolTable& table, std::uint32_t index, std::string_view name,
                  std::vector<Symbol>& found) {
  if (found.size() >= most_matches || !table.has_name(index, name)) return;
  if (const auto symbol = table.at(index)) found.push_back(*symbol);
}

std::vector<Symbol> scan(const SymbolTable& table, std::uint32_t end, std::string_view name) {
  std::vector<Symbol> found;
  for (std::uint32_t index = 1; index < std::min(end, table.size()); ++index)
    add_if_named(table, index, name, found);
  return found;
}

KnownVersions sorted_by_name(const SymbolTable::Parts& parts) {
  if (!parts.version_names) return std::make_shared<const std::vector<VersionName>>();
  auto names = std::make_shared<std::vector<VersionName>>(*parts.version_names);
  std::erase_if(*names, [](const VersionName& each) { return each.name.empty(); });
  std::ranges::sort(*names, {}, &VersionName::name);
  return names;
}

} // namespace

Result<DynamicSymbols> DynamicSymbols::read(const Layout& layout) {
  DynamicSymbols symbols;
  auto dynamic = read_dynamic(layout);
  if (!dynamic) return fail(std::move(dynamic).error());
  symbols.dynamic_ = *dynamic;
  if (!symbols.dynamic_ || !symbols.dynamic_->symbols) return symbols;
  symbols.gnu_ = read_gnu_hash(layout, *symbols.dynamic_);
  if (!symbols.gnu_) symbols.sysv_ = read_sysv_hash(layout, *symbols.dynamic_);
  auto parts = uncounted_parts(layout, *symbols.dynamic_);
  if (!parts) return fail(std::move(parts).error());
  symbols.uncounted_ = std::move(*parts);
  symbols.versions_ = sorted_by_name(symbols.uncounted_);
  return symbols;
}

// DT_HASH, if there is one, says it at once.
std::uint64_t DynamicSymbols::count(const Layout& layout) const {
  const auto sysv = sysv_ ? sysv_ : read_sysv_hash(layout, *dynamic_);
  if (sysv) return sysv->symbol_count();
  if (gnu_)
    if (const auto count = gnu_->symbol_count()) return *count;
  if (const auto count = section_symbol_count(layout, *dynamic_->symbols)) return *count;
  // Every linker puts the string table right after the symbols; glibc's dladdr() relies on it too.
  if (dynamic_->strings && *dynamic_->strings > *dynamic_->symbols)
    return (dynamic_->strings->value - dynamic_->symbols->value) / symbol_size(layout.machine);
  return 0;
}

Result<SymbolTable> DynamicSymbols::table(const Layout& layout) const {
  if (!dynamic_) return section_symbols(layout, raw::SHT_DYNSYM, Table::dynsym);
  if (!dynamic_->symbols) return SymbolTable();
  return counted(uncounted_, count(layout));
}

Result<std::vector<Symbol>> DynamicSymbols::scan_all(const Layout& layout,
                                                     std::string_view name) const {
  const auto all = table(layout);
  if (!all) return fail(all.error());
  return scan(*all, UINT32_MAX, name);
}

Result<std::vector<Symbol>> DynamicSymbols::find(const Layout& layout,
                                                 std::string_view name) const {
  if (!gnu_ && !sysv_) return scan_all(layout, name);
  std::vector<Symbol> found;
  const SymbolTable table(uncounted_);
  const auto visit = [&](std::uint32_t index) { add_if_named(table, index, name, found); };
  const VisitIndex add = std::cref(visit); // which needs no memory of its own
  if (!gnu_) {
    sysv_->for_each_candidate(name, add);
    return found;
  }
  gnu_->for_each_candidate(name, add);
  if (!found.empty()) return found;
  // Imports: below first_hashed, or anywhere if nothing is hashed.
  if (gnu_->symbol_count()) return scan(table, gnu_->first_hashed(), name);
  return scan_all(layout, name);
}

void DynamicSymbols::expect(std::span<const std::string_view> names) const {
  if (!gnu_) return;
  const SymbolTable table(uncounted_);
  std::vector<std::uint32_t> indexes;
  gnu_->for_each_candidate(names, [&](std::uint32_t index) {
    if (indexes.size() == 2 * names.size()) return; // a hostile chain has millions
    table.expect_entry(index);
    indexes.push_back(index);
  });
  for (const std::uint32_t index : indexes) table.expect(index);
}

} // namespace uprobectl::elf
