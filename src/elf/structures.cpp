#include "elf/structures.hpp"

#include <bit>

namespace uprobectl::elf {

namespace {

// A field in the image's byte order as an unsigned number of the host.
class FieldReader {
public:
  explicit FieldReader(ByteOrder order) : order_(order) {}

  template <typename T>
  std::make_unsigned_t<T> operator()(T field) const {
    const auto value = static_cast<std::make_unsigned_t<T>>(field);
    if (order_ == ByteOrder::little) return value;
    if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
    if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
    if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
    return value;
  }

private:
  ByteOrder order_;
};

template <typename Raw>
std::optional<FileHeader> decode_file_header(Bytes bytes, const Machine& machine) {
  const auto header = structure_at<Raw>(bytes, 0);
  if (!header) return std::nullopt;
  const FieldReader field(machine.order);
  return FileHeader{field(header->e_type),  field(header->e_phoff),   field(header->e_phentsize),
                    field(header->e_phnum), field(header->e_shoff),   field(header->e_shentsize),
                    field(header->e_shnum), field(header->e_shstrndx)};
}

template <typename Raw>
std::optional<ProgramHeader> decode_program_header(Bytes bytes, std::uint64_t offset,
                                                   const Machine& machine) {
  const auto header = structure_at<Raw>(bytes, offset);
  if (!header) return std::nullopt;
  const FieldReader field(machine.order);
  return ProgramHeader{field(header->p_type),  field(header->p_flags),  field(header->p_offset),
                       field(header->p_vaddr), field(header->p_filesz), field(header->p_memsz),
                       field(header->p_align)};
}

template <typename Raw>
std::optional<SectionHeader> decode_section_header(Bytes bytes, std::uint64_t offset,
                                                   const Machine& machine) {
  const auto header = structure_at<Raw>(bytes, offset);
  if (!header) return std::nullopt;
  const FieldReader field(machine.order);
  return SectionHeader{
      field(header->sh_name), field(header->sh_type),      field(header->sh_flags),
      field(header->sh_addr), field(header->sh_offset),    field(header->sh_size),
      field(header->sh_link), field(header->sh_addralign), field(header->sh_entsize)};
}

template <typename Raw>
std::optional<SymbolRecord> decode_symbol(Bytes bytes, std::uint64_t offset,
                                          const Machine& machine) {
  const auto symbol = structure_at<Raw>(bytes, offset);
  if (!symbol) return std::nullopt;
  const FieldReader field(machine.order);
  return SymbolRecord{field(symbol->st_name), symbol->st_info, field(symbol->st_shndx),
                      field(symbol->st_value), field(symbol->st_size)};
}

template <typename Raw>
std::optional<DynamicEntry> decode_dynamic_entry(Bytes bytes, std::uint64_t offset,
                                                 const Machine& machine) {
  const auto entry = structure_at<Raw>(bytes, offset);
  if (!entry) return std::nullopt;
  const FieldReader field(machine.order);
  return DynamicEntry{field(entry->d_tag), field(entry->d_un.d_val)};
}

template <typename Raw32, typename Raw64>
std::uint64_t size_in(const Machine& machine) {
  return machine.is_64bit ? sizeof(Raw64) : sizeof(Raw32);
}

} // namespace

std::uint64_t file_header_size(const Machine& machine) {
  return size_in<raw::Elf32_Ehdr, raw::Elf64_Ehdr>(machine);
}
std::uint64_t program_header_size(const Machine& machine) {
  return size_in<raw::Elf32_Phdr, raw::Elf64_Phdr>(machine);
}
std::uint64_t section_header_size(const Machine& machine) {
  return size_in<raw::Elf32_Shdr, raw::Elf64_Shdr>(machine);
}
std::uint64_t symbol_size(const Machine& machine) {
  return size_in<raw::Elf32_Sym, raw::Elf64_Sym>(machine);
}
std::uint64_t dynamic_entry_size(const Machine& machine) {
  return size_in<raw::Elf32_Dyn, raw::Elf64_Dyn>(machine);
}

std::optional<FileHeader> read_file_header(Bytes bytes, const Machine& machine) {
  return machine.is_64bit ? decode_file_header<raw::Elf64_Ehdr>(bytes, machine)
                          : decode_file_header<raw::Elf32_Ehdr>(bytes, machine);
}

std::optional<ProgramHeader> read_program_header(Bytes bytes, std::uint64_t offset,
                                                 const Machine& machine) {
  return machine.is_64bit ? decode_program_header<raw::Elf64_Phdr>(bytes, offset, machine)
                          : decode_program_header<raw::Elf32_Phdr>(bytes, offset, machine);
}

std::optional<SectionHeader> read_section_header(Bytes bytes, std::uint64_t offset,
                                                 const Machine& machine) {
  return machine.is_64bit ? decode_section_header<raw::Elf64_Shdr>(bytes, offset, machine)
                          : decode_section_header<raw::Elf32_Shdr>(bytes, offset, machine);
}

std::optional<SymbolRecord> read_symbol(Bytes bytes, std::uint64_t offset, const Machine& machine) {
  return machine.is_64bit ? decode_symbol<raw::Elf64_Sym>(bytes, offset, machine)
                          : decode_symbol<raw::Elf32_Sym>(bytes, offset, machine);
}

std::optional<DynamicEntry> read_dynamic_entry(Bytes bytes, std::uint64_t offset,
                                               const Machine& machine) {
  return machine.is_64bit ? decode_dynamic_entry<raw::Elf64_Dyn>(bytes, offset, machine)
                          : decode_dynamic_entry<raw::Elf32_Dyn>(bytes, offset, machine);
}

} // namespace uprobectl::elf
