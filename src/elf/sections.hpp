// Section headers, trusted for nothing but symbol tables that no segment describes. They lie at the
// end of the file, may be missing and may be wrong.
#pragma once

#include "elf/dynamic_table.hpp"
#include "elf/layout.hpp"

namespace uprobectl::elf {

// The first symbol table of this type (SHT_SYMTAB, SHT_DYNSYM); empty if there is none or the
// section headers are not in the file; corrupt if it is there but lies outside the file.
Result<SymbolTable> section_symbols(const Layout& layout, std::uint32_t type, Table table,
                                    KnownVersions versions = nullptr);

// The first section with this name that has bytes in the file.
struct FoundSection {
  VirtualAddress address;
  Bytes bytes;
  bool is_compressed = false; // SHF_COMPRESSED
};
std::optional<FoundSection> find_section(const Layout& layout, std::string_view name);
std::optional<Bytes> section_named(const Layout& layout, std::string_view name); // its bytes

struct SectionContent {
  Bytes bytes;
  std::shared_ptr<const void> owner = {}; // of the bytes, where they were inflated
};

// What a section of debug information holds: inflated where it is compressed (SHF_COMPRESSED with
// zlib or zstd, or the form before it, in which .debug_frame is called .zdebug_frame). Nothing if
// there is no such section; corrupt for damaged data, unsupported for another compression and
// beyond `most` bytes.
Result<std::optional<SectionContent>> section_content(const Layout& layout, std::string_view name,
                                                      std::uint64_t most);

// corrupt where the file header names section headers that are not all in the file.
Result<void> check_section_headers(const Layout& layout);

// SHT_NOTE sections: where a debug file's notes are, whose program headers still tell where they
// were in the file it was made from.
std::vector<NoteTable> note_sections(const Layout& layout);

// How many entries the SHT_DYNSYM section at this address has.
std::optional<std::uint64_t> section_symbol_count(const Layout& layout, VirtualAddress address);

// Where the section headers say that code sections with one of these names are loaded.
std::vector<AddressRange> code_sections_named(const Layout& layout,
                                              std::span<const std::string_view> names);

// Whether a section of code says that its bytes are not in the file.
bool has_code_without_bytes(const Layout& layout);

} // namespace uprobectl::elf
