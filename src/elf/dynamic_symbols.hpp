// .dynsym as the dynamic linker sees it: through PT_DYNAMIC and a hash table, never by section.
#pragma once

#include "elf/dynamic_table.hpp"
#include "elf/hash_tables.hpp"

namespace uprobectl::elf {

// What every lookup needs, read once: thousands of names may be asked for. The layout given to the
// functions is the one it was read from.
class DynamicSymbols {
public:
  static Result<DynamicSymbols> read(const Layout& layout);

  Result<SymbolTable> table(const Layout& layout) const;
  Result<std::vector<Symbol>> find(const Layout& layout, std::string_view name) const;
  void expect(std::span<const std::string_view> names) const;
  KnownVersions versions() const { return versions_; }

private:
  std::uint64_t count(const Layout& layout) const;
  Result<std::vector<Symbol>> scan_all(const Layout& layout, std::string_view name) const;

  std::optional<DynamicTable> dynamic_;
  std::optional<GnuHashTable> gnu_;
  std::optional<SysvHashTable> sysv_; // not read where there is the other: another page of the file
  // From DT_SYMTAB to the end of its segment, as if it were all symbols: enough to read one whose
  // index is known.
  SymbolTable::Parts uncounted_;
  KnownVersions versions_;
};

} // namespace uprobectl::elf
