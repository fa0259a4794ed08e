// SPDX-License-Identifier: Apache-2.0
#include "elf/layout.hpp"

#include "elf/elf_types.hpp"

#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

Result<void> check_type(std::uint16_t type) {
  switch (type) {
  case raw::ET_EXEC:
  case raw::ET_DYN:
    return {};
  case raw::ET_REL:
    return fail(
        Error{ErrorKind::unsupported, "relocatable object: its code is not loaded from this file"}
            .hint("probe the program or library it was linked into"));
  case raw::ET_CORE:
    return fail(Error{ErrorKind::unsupported, "core dump, not a program or library"}.hint(
        "probe the program or library that dumped it"));
  default:
    return fail(ErrorKind::unsupported,
                fmt::format("ELF type {} is neither a program nor a library", hex(type)));
  }
}

template <class ELFT>
void add_load(Layout& layout, const typename ELFT::Phdr& header) {
  const std::uint64_t offset = header.p_offset;
  const std::uint64_t size = header.p_filesz;
  const std::uint64_t available = offset < layout.bytes.size() ? layout.bytes.size() - offset : 0;
  if (size > available) layout.truncated = true;
  layout.end_of_segments =
      std::max(layout.end_of_segments, checked_add(offset, size).value_or(UINT64_MAX));
  layout.segments.push_back({.address = {header.p_vaddr},
                             .memory_size = header.p_memsz,
                             .offset = {offset},
                             .file_size = std::min(size, available),
                             .alignment = header.p_align,
                             .readable = (header.p_flags & raw::PF_R) != 0,
                             .writable = (header.p_flags & raw::PF_W) != 0,
                             .executable = (header.p_flags & raw::PF_X) != 0});
}

// The limits are those of the kernel, fs/binfmt_elf.c load_elf_phdrs(): files that it does not load
// cannot be probed. They also reject PN_XNUM (0xffff), which only core dumps use.
template <class ELFT>
Result<typename ELFT::PhdrRange> program_headers(Bytes image, const typename ELFT::Ehdr& header) {
  constexpr std::uint64_t max_bytes = 65536;
  constexpr std::uint64_t entry = sizeof(typename ELFT::Phdr);
  const std::uint64_t count = header.e_phnum;
  if (count == 0) return fail(ErrorKind::corrupt, "no program headers: the file cannot be loaded");
  if (header.e_phentsize != entry)
    return fail(ErrorKind::corrupt, fmt::format("program headers have {} bytes each, expected {}",
                                                std::uint64_t{header.e_phentsize}, entry));
  const std::uint64_t size = count * entry;
  if (size > max_bytes)
    return fail(ErrorKind::corrupt,
                fmt::format("{} program headers, more than the {} the kernel accepts", count,
                            max_bytes / entry));
  const auto table = slice(image, header.e_phoff, size);
  if (!table)
    return fail(ErrorKind::corrupt,
                fmt::format("program headers at {}, {} bytes, lie outside the file of {} bytes",
                            hex(header.e_phoff), size, image.size()));
  return views_in<typename ELFT::Phdr>(*table);
}

template <class ELFT>
Result<void> read_program_headers(Layout& layout) {
  const auto& file = *view_at<typename ELFT::Ehdr>(layout.bytes, 0); // read_machine() checks it
  if (const auto type = check_type(file.e_type); !type) return fail(type.error());
  const auto headers = program_headers<ELFT>(layout.bytes, file);
  if (!headers) return fail(headers.error());
  for (const auto& header : *headers) {
    switch (header.p_type) {
    case raw::PT_LOAD:
      add_load<ELFT>(layout, header);
      break;
    case raw::PT_NOTE:
      layout.notes.push_back({header.p_offset, header.p_filesz,
                              header.p_align == 8 ? std::uint64_t{8} : std::uint64_t{4}});
      break;
    case raw::PT_DYNAMIC:
      if (header.p_filesz > 0) layout.dynamic = AddressRange{{header.p_vaddr}, header.p_filesz};
      break;
    case raw::PT_GNU_EH_FRAME:
      layout.frame_table = AddressRange{{header.p_vaddr}, header.p_filesz};
      break;
    default:
      break;
    }
  }
  return {};
}

} // namespace

std::string_view to_string(Binding binding) {
  switch (binding) {
  case Binding::local:
    return "local";
  case Binding::global:
    return "global";
  case Binding::weak:
    return "weak";
  }
  return "local";
}

std::string_view to_string(Table table) {
  switch (table) {
  case Table::dynsym:
    return "dynsym";
  case Table::symtab:
    return "symtab";
  case Table::gnu_debugdata:
    return "gnu_debugdata";
  case Table::debug_file:
    return "debug_file";
  case Table::oat:
    return "oat";
  case Table::plt:
    return "plt";
  }
  return "symtab";
}

std::string to_string(const Machine& machine) {
  const ArchNames& names = machine.info().names;
  const bool is_little = machine.order == ByteOrder::little;
  const std::string_view name = machine.is_64bit ? (is_little ? names.little64 : names.big64)
                                                 : (is_little ? names.little32 : names.big32);
  return name.empty() ? fmt::format("machine {}", machine.id) : std::string(name);
}

std::optional<Arch> code_arch(const Machine& machine, bool thumb) {
  if (!thumb) return machine.info().has_decoder ? std::optional(machine.arch) : std::nullopt;
  // The byte order of Thumb code in a big-endian file depends on its age (BE32, BE8).
  if (machine.order == ByteOrder::big) return std::nullopt;
  return Arch::thumb;
}

bool looks_like_elf(Bytes bytes) { return as_text(bytes).starts_with(raw::ElfMagic); }

Result<Machine> read_machine(Bytes image) {
  if (!looks_like_elf(image)) return fail(ErrorKind::not_elf, "not an ELF file");
  if (image.size() < raw::EI_NIDENT)
    return fail(ErrorKind::corrupt,
                fmt::format("ELF header is truncated, it has {} bytes", image.size()));
  const auto [elf_class, encoding] = llvm::object::getElfArchType(as_string_ref(image));
  if (elf_class != raw::ELFCLASS32 && elf_class != raw::ELFCLASS64)
    return fail(ErrorKind::corrupt,
                fmt::format("ELF class {} is neither 32-bit nor 64-bit", elf_class));
  if (encoding != raw::ELFDATA2LSB && encoding != raw::ELFDATA2MSB)
    return fail(ErrorKind::corrupt,
                fmt::format("ELF data encoding {} is neither little nor big endian", encoding));
  const bool is_64bit = elf_class == raw::ELFCLASS64;
  const ByteOrder order = encoding == raw::ELFDATA2LSB ? ByteOrder::little : ByteOrder::big;
  return with_elf_type(
      Machine(raw::EM_NONE, is_64bit, order), [&]<class ELFT>() -> Result<Machine> {
        using Header = typename ELFT::Ehdr;
        const auto* const header = view_at<Header>(image, 0);
        if (header == nullptr)
          return fail(ErrorKind::corrupt, fmt::format("ELF header is truncated, {} of {} bytes",
                                                      image.size(), sizeof(Header)));
        return Machine(header->e_machine, is_64bit, order);
      });
}

std::string hex(std::uint64_t number) { return fmt::format("{:#x}", number); }

Result<Layout> read_sections_only(Bytes image) {
  const auto machine = read_machine(image);
  if (!machine) return fail(machine.error());
  Layout layout{.bytes = image, .machine = *machine};
  with_elf_type(*machine, [&]<class ELFT>() {
    const auto& header = *view_at<typename ELFT::Ehdr>(image, 0);
    layout.entry = {header.e_entry};
    layout.is_fixed = header.e_type == raw::ET_EXEC;
    layout.has_section_headers = header.e_shoff != 0;
  });
  return layout;
}

Result<Layout> read_layout(Bytes image) {
  auto layout = read_sections_only(image);
  if (!layout) return layout;
  const auto read = with_elf_type(
      layout->machine, [&]<class ELFT>() { return read_program_headers<ELFT>(*layout); });
  if (!read) return fail(read.error());
  return layout;
}

std::vector<AddressRange> read_relro(const Layout& layout) {
  return with_elf_type(layout.machine, [&]<class ELFT>() {
    std::vector<AddressRange> relro;
    const auto* const file = view_at<typename ELFT::Ehdr>(layout.bytes, 0);
    if (file == nullptr) return relro;
    const auto headers = program_headers<ELFT>(layout.bytes, *file);
    if (!headers) return relro;
    for (const auto& header : *headers)
      if (header.p_type == raw::PT_GNU_RELRO) relro.push_back({{header.p_vaddr}, header.p_memsz});
    return relro;
  });
}

const Segment* find_segment(const Layout& layout, VirtualAddress address) {
  for (const Segment& segment : layout.segments)
    if (address >= segment.address && address.value - segment.address.value < segment.file_size)
      return &segment;
  return nullptr;
}

std::uint64_t header_bytes(const Segment& segment, const Machine& machine) {
  const std::uint64_t size = machine.is_64bit ? 64 : 52; // Elf64_Ehdr, Elf32_Ehdr
  return std::min(size - std::min(segment.offset.value, size), segment.file_size);
}

std::optional<Bytes> bytes_from(const Layout& layout, VirtualAddress address) {
  const Segment* segment = find_segment(layout, address);
  if (segment == nullptr) return std::nullopt;
  const std::uint64_t skipped = address.value - segment->address.value;
  return slice(layout.bytes, segment->offset.value + skipped, segment->file_size - skipped);
}

Error unmapped(const Layout& layout, std::string_view tag, VirtualAddress address) {
  Error error{ErrorKind::corrupt,
              fmt::format("{} address {} has no bytes in the file", tag, hex(address.value))};
  if (layout.truncated)
    return std::move(error).hint("copy the file again: it is shorter than its segments");
  return error;
}

} // namespace uprobectl::elf
