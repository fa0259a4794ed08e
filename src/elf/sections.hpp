// SPDX-License-Identifier: Apache-2.0
// Section headers. They may be missing or wrong, so they are used only for what no segment
// describes: symbol tables and debug information.
#pragma once

#include "elf/dynamic_table.hpp"
#include "elf/layout.hpp"

namespace uprobectl::elf {

// Returns the first symbol table of this type (SHT_SYMTAB, SHT_DYNSYM); empty if there is none or
// the section headers are not in the file. Fails with corrupt if the table is outside the file.
Result<SymbolTable> section_symbols(const Layout& layout, std::uint32_t type, Table table,
                                    KnownVersions versions = nullptr);

// A section that has bytes in the file.
struct FoundSection {
  VirtualAddress address;
  Bytes bytes;
  bool is_compressed = false; // SHF_COMPRESSED
};
// Returns the first such section with this name.
std::optional<FoundSection> find_section(const Layout& layout, std::string_view name);
// Returns its bytes, without decompressing them.
std::optional<Bytes> section_bytes(const Layout& layout, std::string_view name);

struct SectionContent {
  Bytes bytes;
  std::shared_ptr<const void> owner = {}; // of the bytes, if they were inflated
};

// Returns the content of a debug section, inflated if it is compressed: SHF_COMPRESSED with zlib or
// zstd, or the older form, in which .debug_frame is named .zdebug_frame. Returns nullopt without
// such a section. Fails with corrupt for damaged data, and with unsupported for another compression
// or above max_size bytes.
Result<std::optional<SectionContent>> section_content(const Layout& layout, std::string_view name,
                                                      std::uint64_t max_size);

// The size of a debug section, known without inflating it.
struct ContentSize {
  std::uint64_t in_file = 0;
  std::uint64_t content = 0; // as its header says
  bool is_compressed = false;
};
std::optional<ContentSize> content_size(const Layout& layout, std::string_view name);

// Fails with corrupt if the section headers are not completely in the file.
Result<void> check_section_headers(const Layout& layout);

// Returns the SHT_NOTE sections. Needed for debug files, whose program headers describe the
// original file.
std::vector<NoteTable> note_sections(const Layout& layout);

// Returns the number of entries of the SHT_DYNSYM section at this address.
std::optional<std::uint64_t> section_symbol_count(const Layout& layout, VirtualAddress address);

// Returns the addresses of the code sections with these names.
std::vector<AddressRange> code_sections_named(const Layout& layout,
                                              std::span<const std::string_view> names);

// A section header.
struct SectionExtent {
  std::string_view name;
  std::uint64_t offset = 0; // in the image
  std::uint64_t size = 0;   // bytes in the image; 0 for SHT_NOBITS
  bool is_loaded = false;   // SHF_ALLOC
  bool is_code = false;     // SHF_EXECINSTR
};
// Returns all sections. Empty if the section headers are not in the file.
std::vector<SectionExtent> sections_of(const Layout& layout);

// Whether a code section is SHT_NOBITS, as in debug files.
bool has_code_without_bytes(const Layout& layout);

} // namespace uprobectl::elf
