// ELF structures of either class and byte order, decoded to one shape. Layouts: gABI chapters 4
// and 5, as LLVM's BinaryFormat spells them.
#pragma once

#include "uprobectl/elf.hpp"

#include <llvm/BinaryFormat/ELF.h>

namespace uprobectl::elf {

namespace raw = llvm::ELF;

struct FileHeader {
  std::uint16_t type = 0;
  std::uint64_t program_headers = 0; // e_phoff
  std::uint16_t program_header_size = 0;
  std::uint16_t program_header_count = 0;
  std::uint64_t section_headers = 0; // e_shoff
  std::uint16_t section_header_size = 0;
  std::uint16_t section_header_count = 0;
  std::uint16_t section_names = 0; // e_shstrndx
};

struct ProgramHeader {
  std::uint32_t type = 0;
  std::uint32_t flags = 0;
  std::uint64_t offset = 0;
  std::uint64_t address = 0;
  std::uint64_t file_size = 0;
  std::uint64_t memory_size = 0;
  std::uint64_t alignment = 0;
};

struct SectionHeader {
  std::uint32_t name = 0; // offset in the section name table
  std::uint32_t type = 0;
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t link = 0;
  std::uint64_t alignment = 0;
  std::uint64_t entry_size = 0;
};

struct SymbolRecord {
  std::uint32_t name = 0; // offset in the string table
  std::uint8_t info = 0;
  std::uint16_t section = 0;
  std::uint64_t value = 0;
  std::uint64_t size = 0;
};

struct DynamicEntry {
  std::uint64_t tag = 0;
  std::uint64_t value = 0;
};

// How many bytes each structure takes in the file.
std::uint64_t file_header_size(const Machine& machine);
std::uint64_t program_header_size(const Machine& machine);
std::uint64_t section_header_size(const Machine& machine);
std::uint64_t symbol_size(const Machine& machine);
std::uint64_t dynamic_entry_size(const Machine& machine);

// Nothing if the structure is not all inside the bytes.
std::optional<FileHeader> read_file_header(Bytes bytes, const Machine& machine);
std::optional<ProgramHeader> read_program_header(Bytes bytes, std::uint64_t offset,
                                                 const Machine& machine);
std::optional<SectionHeader> read_section_header(Bytes bytes, std::uint64_t offset,
                                                 const Machine& machine);
std::optional<SymbolRecord> read_symbol(Bytes bytes, std::uint64_t offset, const Machine& machine);
std::optional<DynamicEntry> read_dynamic_entry(Bytes bytes, std::uint64_t offset,
                                               const Machine& machine);

} // namespace uprobectl::elf
