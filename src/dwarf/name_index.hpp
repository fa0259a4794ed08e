// SPDX-License-Identifier: Apache-2.0
// The index of names in .debug_names (DWARF 5, 6.1.1), which clang -gpubnames writes. LLVM's reader
// (DWARFDebugNames) trusts the counts in the headers. Only this module includes this header.
#pragma once

#include "dwarf/context.hpp"

#include <functional>

namespace uprobectl::dwarf {

class NameIndex {
public:
  // An entry that the index claims to exist.
  struct Entry {
    llvm::DWARFUnit* unit = nullptr; // the compile unit or skeleton
    std::uint64_t offset = 0;        // in the unit with the entries
    std::uint16_t tag = 0;
  };

  // Reads the headers. nullopt without an index, with a warning if it is damaged; also if it lacks
  // one of the units, as linkers just join the indexes of objects.
  static std::optional<NameIndex> read(Context& context);

  // Calls `visit(name, entry)` for each entry of the names that are wanted, except in type units.
  // Returns false, with a warning, if the index is damaged or refers to units that do not exist.
  bool visit(const std::function<bool(std::string_view name)>& is_wanted,
             const std::function<void(std::string_view name, const Entry&)>& visit) const;

private:
  struct Attribute {
    std::uint64_t index = 0; // DW_IDX_*
    std::uint64_t form = 0;
  };
  struct Abbreviation {
    std::uint16_t tag = 0;
    std::vector<Attribute> attributes;
  };
  // Names of some units.
  struct Table {
    std::vector<llvm::DWARFUnit*> units;
    std::uint64_t name_count = 0;
    unsigned offset_size = 4;
    Bytes names;   // offsets in .debug_str
    Bytes entries; // offsets in the pool, one for each name
    Bytes pool;
    std::map<std::uint64_t, Abbreviation> abbreviations; // by code
  };

  explicit NameIndex(Context& context);
  bool read_tables();
  bool read_table(Bytes bytes, unsigned offset_size);
  bool read_abbreviations(Bytes bytes, Table& table) const;
  bool has_all_units() const;
  bool visit_entries(const Table& table, std::uint64_t at, std::string_view name,
                     std::uint64_t& work_left,
                     const std::function<void(std::string_view, const Entry&)>& visit) const;

  Context& context_;
  ByteOrder order_;
  Bytes section_;
  Bytes strings_;
  std::vector<Table> tables_;
};

// Returns a name of C++ without its scopes, as the index has it.
inline std::string_view last_part(std::string_view name) {
  const auto scope = name.rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope + 2);
}

// Returns the compile units in which the index has an entry with one of the names and tags; nullopt
// if no index lists all units.
std::optional<std::set<const llvm::DWARFUnit*>>
units_with_names(Context& context, const std::function<bool(std::string_view)>& is_wanted,
                 std::span<const std::uint16_t> tags);

} // namespace uprobectl::dwarf
