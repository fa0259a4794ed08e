// SPDX-License-Identifier: Apache-2.0
// LLVM's DWARFContext over the sections of an ELF file, with what LLVM lacks: sections that are
// inflated when they are first needed, references into an alternate file, and checks of the paths
// of split units before they are opened. Only this module includes this header.
#pragma once

#include "dwarf/dwarf.hpp"
#include "dwarf/function_map.hpp"
#include "dwarf/unit_map.hpp"
#include "elf/layout.hpp"

#include <llvm/DebugInfo/DWARF/DWARFCompileUnit.h>
#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/DebugInfo/DWARF/DWARFDie.h>
#include <llvm/DebugInfo/DWARF/DWARFUnit.h>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace uprobectl::dwarf {

using Die = llvm::DWARFDie;
using Attribute = llvm::dwarf::Attribute;

// The tag as a number, for `switch`: an enumeration would need a case for all of DWARF's tags.
inline std::uint16_t tag_of(const Die& die) { return die.getTag(); }

// How many DW_AT_specification and DW_AT_abstract_origin references are followed from one entry.
// Compilers write at most three.
constexpr int max_origins = 16;

class DebugSections;
class LineIndex;
class LineTable;
class TypeDefinitions;
class TypeTable;
struct UnitLines;

class Context {
public:
  ~Context();

  // `owner` keeps the bytes valid; null if they outlive the context.
  static Result<std::unique_ptr<Context>> create(Bytes file, std::shared_ptr<const void> owner,
                                                 std::string source);

  // Where the paths of other files lead to: split units and the alternate file.
  struct OtherFiles {
    std::vector<std::string> folders; // searched besides the folders that the units name
    std::string package;              // of split units (.dwp); empty if there is none
    std::string alternate;            // of .gnu_debugaltlink; empty if it was not found
  };
  void set_other_files(OtherFiles files) { files_ = std::move(files); }
  // The code of the image that this describes: what can be loaded and executed.
  void set_code(std::vector<elf::AddressRange> code) { code_ = std::move(code); }

  llvm::DWARFContext& dwarf();
  const elf::Layout& layout() const { return layout_; }
  const std::string& source() const { return source_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // The size of .debug_info, without inflating it.
  std::uint64_t info_size() const;
  void warn(std::string message);
  // Turns an error of LLVM into a warning.
  void warn(llvm::Error error);
  // Begins to inflate the sections on another thread if they are compressed and large.
  void prefetch(std::initializer_list<std::string_view> sections);
  // Inflates the location lists. Before, LLVM sees zeros instead of them: it asks for the section
  // when it reads the first entry of a unit. Returns false, with a warning, if they are damaged.
  bool read_location_lists();

  // Whether code that begins at the address is in the image. Linkers keep the debug information of
  // code that they remove. They put it at address 0, 1, -1 or -2 (LLD's -z dead-reloc-in-nonalloc).
  bool is_code(std::uint64_t address) const;
  // Whether a function is in the image: one of its ranges is, or it has none.
  bool is_live(const Die& function);
  // Returns which of the addresses is the function's entry, by the names of symbols; nullopt if no
  // symbol there has its name.
  std::optional<std::uint64_t> entry_by_symbol(const Die& function,
                                               std::span<const std::uint64_t> addresses);
  // Returns the compile unit whose code covers the address; null if there is none, or, with a
  // warning, if its first entry is damaged.
  llvm::DWARFUnit* unit_at(VirtualAddress address);
  // Returns the unit with the entries of this unit: a split unit (.dwo, .dwp) for a skeleton.
  // Null, with a warning, if the split unit cannot be read. LLVM must not be asked for the entries
  // of a unit for which this is null: it would open any path that the unit names.
  llvm::DWARFUnit* with_entries(llvm::DWARFUnit* unit);
  // Whether LLVM may be asked for the unit's first entry, for which it reads the table of
  // abbreviations. Tables of a damaged file may overlap: LLVM would keep each of them. Reads the
  // entry and finds the unit's parts of other sections, which LLVM's functions rely on. False with
  // a warning.
  bool has_sound_root(llvm::DWARFUnit& unit);
  // Returns the compile unit whose line table is at the offset in .debug_line; null if there is
  // none.
  llvm::DWARFUnit* unit_of_lines(std::uint64_t offset);
  // Returns the compile units by the offsets of their line tables. Reads all units.
  const std::map<std::uint64_t, llvm::DWARFUnit*>& units_by_lines();
  // Returns the DW_TAG_subprogram whose code covers the address; invalid if there is none.
  Die function_at(VirtualAddress address);
  // Returns the definition without code that the unit of the address has for the symbol; invalid if
  // there is none, or more than one, or if the symbol is that of function_at() the address.
  Die function_without_code(VirtualAddress address, std::string_view symbol);
  // Returns function_at() the address, or the innermost DW_TAG_inlined_subroutine if a function is
  // inlined there. `unit` is that of the address.
  Die innermost_function_at(llvm::DWARFUnit& unit, VirtualAddress address);

  TypeTable& types();
  // Returns the entry that defines a type which the entry declares, also in the alternate file;
  // invalid if there is none, or if definitions differ. The first call reads all units.
  Die definition_of(const Die& declaration);

  // Returns the entry that a reference attribute of the entry leads to, also in the alternate file;
  // invalid if there is none.
  Die referenced(const Die& die, Attribute attribute);
  // Returns the entry at an offset in .debug_info; invalid if its unit cannot be read.
  Die entry_at(std::uint64_t offset);
  // Returns a string attribute of the entry, also if the string is in the alternate file.
  std::optional<std::string_view> text(const Die& die, Attribute attribute);
  // Returns the first entry with the attribute: the entry itself, or one that DW_AT_abstract_origin
  // and DW_AT_specification lead to. Invalid if none has it.
  Die with_attribute(const Die& die, Attribute attribute);
  // Returns the raw name as in symbol tables: DW_AT_linkage_name or, in C, DW_AT_name.
  std::optional<std::string_view> linkage_name(const Die& die);
  // Returns the line table of a unit, of its skeleton for a split unit; null if it has none, and
  // with a warning if it cannot be read. LLVM must not be asked for it: it crashes at some damaged
  // tables.
  const LineTable* line_table(llvm::DWARFUnit& unit);
  // Returns the rows of the line table by address.
  const LineIndex* line_index(llvm::DWARFUnit& unit);
  // Returns DW_AT_name.
  std::optional<std::string_view> name(const Die& die);

private:
  Context();
  FunctionMap* functions_of(llvm::DWARFUnit& unit); // null: its entries cannot be read
  Context* alternate();
  // Returns null, with a warning, for a unit that LLVM must not read.
  llvm::DWARFUnit* with_bounded_entries(llvm::DWARFUnit* unit);
  // Returns the type with this signature (DWARF 5, 7.32), from the file of the unit.
  Die type_with_signature(const llvm::DWARFUnit& unit, std::uint64_t signature);
  // Returns where the line table of a compile unit begins; nullopt for other units.
  std::optional<std::uint64_t> lines_of_compile_unit(llvm::DWARFUnit& unit);
  UnitLines* unit_lines(llvm::DWARFUnit& unit);
  std::optional<std::string> find_split_unit(llvm::DWARFUnit& unit);
  // Returns the split unit of a skeleton in the file; null, with a warning, if it cannot be read.
  llvm::DWARFUnit* read_split_unit(llvm::DWARFUnit& unit, const std::string& path);
  bool is_safe_split_file(const std::string& path);

  elf::Layout layout_;
  std::shared_ptr<const void> owner_;
  std::string source_;
  OtherFiles files_;
  std::vector<elf::AddressRange> code_; // empty: unknown
  elf::SymbolTable symbols_;            // of the file
  // The symbols of functions: address and index, sorted.
  std::optional<std::vector<std::pair<std::uint64_t, std::uint32_t>>> functions_by_address_;
  std::map<std::pair<const llvm::DWARFUnit*, std::uint64_t>, bool> live_functions_; // cache
  std::vector<std::string> warnings_;
  std::unique_ptr<llvm::DWARFContext> dwarf_;
  DebugSections* sections_ = nullptr;                               // of dwarf_
  std::map<const llvm::DWARFUnit*, llvm::DWARFUnit*> with_entries_; // cache; null: unreadable
  std::unordered_map<const llvm::DWARFUnit*, bool> sound_roots_;    // cache
  std::map<std::string, std::shared_ptr<llvm::DWARFContext>> split_files_;
  std::map<const llvm::DWARFUnit*, FunctionMap> functions_;                 // cache
  std::optional<UnitMap> units_;                                            // cache
  std::optional<std::map<std::uint64_t, llvm::DWARFUnit*>> units_by_lines_; // cache
  // Units share tables. The paths in a table depend on the unit's folder.
  using LinesKey = std::tuple<const llvm::DWARFContext*, std::uint64_t, std::string_view>;
  std::map<LinesKey, std::unique_ptr<UnitLines>> lines_;          // cache; null: unreadable
  std::map<const llvm::DWARFContext*, std::uint64_t> lines_size_; // of these tables, bytes
  struct Abbreviations {
    std::map<std::uint64_t, bool> is_sound; // by the offset of the table
    std::uint64_t size = 0;                 // of these tables, bytes
  };
  std::map<const llvm::DWARFContext*, Abbreviations> abbreviations_; // of the files
  bool has_own_abbreviations(const llvm::DWARFUnit& unit);
  std::optional<bool> package_is_safe_; // nullopt until a split unit is needed
  bool alternate_opened_ = false;
  std::unique_ptr<Context> alternate_;
  std::unique_ptr<TypeTable> types_;
  std::unique_ptr<TypeDefinitions> definitions_;
};

} // namespace uprobectl::dwarf
