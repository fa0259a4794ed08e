// SPDX-License-Identifier: Apache-2.0
// The dynamic table (PT_DYNAMIC), which locates symbols, versions and relocations for the loader,
// without section headers.
#pragma once

#include "elf/layout.hpp"

namespace uprobectl::elf {

// The values of DT_* entries. For repeated tags the last one is used, as in glibc and bionic.
struct DynamicTable {
  std::optional<VirtualAddress> symbols;          // DT_SYMTAB
  std::optional<VirtualAddress> strings;          // DT_STRTAB
  std::optional<VirtualAddress> hash;             // DT_HASH
  std::optional<VirtualAddress> gnu_hash;         // DT_GNU_HASH
  std::optional<VirtualAddress> versions;         // DT_VERSYM
  std::optional<VirtualAddress> defined_versions; // DT_VERDEF
  std::optional<VirtualAddress> needed_versions;  // DT_VERNEED
  std::optional<VirtualAddress> plt_relocations;  // DT_JMPREL
  std::optional<VirtualAddress> rela;             // DT_RELA
  std::optional<VirtualAddress> rel;              // DT_REL
  std::optional<VirtualAddress> packed_rela;      // DT_ANDROID_RELA
  std::optional<VirtualAddress> packed_rel;       // DT_ANDROID_REL
  std::optional<VirtualAddress> got;              // DT_PLTGOT
  std::uint64_t plt_relocations_size = 0;         // DT_PLTRELSZ, bytes
  std::uint64_t plt_relocation_type = 0;          // DT_PLTREL: DT_REL or DT_RELA
  std::uint64_t rela_size = 0;                    // DT_RELASZ, bytes
  std::uint64_t rel_size = 0;                     // DT_RELSZ, bytes
  std::uint64_t packed_rela_size = 0;             // DT_ANDROID_RELASZ, bytes
  std::uint64_t packed_rel_size = 0;              // DT_ANDROID_RELSZ, bytes
  std::uint64_t strings_size = 0;                 // DT_STRSZ, bytes
  std::uint64_t symbol_size = 0;                  // DT_SYMENT, bytes
  bool relocates_code = false;                    // DT_TEXTREL, or DF_TEXTREL in DT_FLAGS
  bool is_program = false;                        // DF_1_PIE in DT_FLAGS_1
};

// Returns nullopt if the image has none (static programs, debug files). Fails with corrupt if the
// file is truncated before it.
Result<std::optional<DynamicTable>> read_dynamic(const Layout& layout);

// Returns the bytes of DT_STRTAB: DT_STRSZ bytes, or up to the end of the segment without it.
Result<Bytes> dynamic_strings(const Layout& layout, const DynamicTable& table);

// See Image::needed_libraries().
NeededLibraries needed_libraries(const Layout& layout);

// Returns the version names of DT_VERDEF and DT_VERNEED by the index that DT_VERSYM uses (LSB core
// specification, "Symbol Versioning"). Unused indexes have empty names. An entry outside the file
// ends its list.
std::vector<VersionName> read_version_names(const Layout& layout, const DynamicTable& table,
                                            Bytes strings);

// The versions that an image defines and needs, sorted by name. They identify the "V" of "f@V" and
// "f@@V" in .symtab and debug files. Null if unknown, for example without a dynamic section.
using KnownVersions = std::shared_ptr<const std::vector<VersionName>>;

// See Image::import_slots() and variable_slots(). `symbols` is .dynsym.
enum class SlotKind : std::uint8_t { functions, variables };
Result<std::vector<ImportSlot>> read_slots(const Layout& layout, const SymbolTable& symbols,
                                           SlotKind kind);

// See Image::thread_offset_slot(). `offset`: of the variable in the image's thread-local storage.
std::optional<VirtualAddress> find_thread_offset_slot(const Layout& layout, std::uint64_t offset,
                                                      std::string_view variable,
                                                      const SymbolTable& symbols);

} // namespace uprobectl::elf
