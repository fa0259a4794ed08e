#include "elf/layout.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace uprobectl::elf {

namespace {

Result<Machine> read_identification(Bytes image) {
  constexpr std::string_view magic = "\x7f"
                                     "ELF";
  if (!as_text(image).starts_with(magic)) return fail(ErrorKind::not_elf, "not an ELF file");
  const auto ident = slice(image, 0, raw::EI_NIDENT);
  if (!ident)
    return fail(ErrorKind::corrupt,
                fmt::format("ELF header is truncated, {} bytes are no header", image.size()));
  const auto byte = [&](unsigned at) { return std::to_integer<unsigned>((*ident)[at]); };

  Machine machine;
  if (byte(raw::EI_CLASS) != raw::ELFCLASS32 && byte(raw::EI_CLASS) != raw::ELFCLASS64)
    return fail(ErrorKind::corrupt,
                fmt::format("ELF class {} is neither 32-bit nor 64-bit", byte(raw::EI_CLASS)));
  machine.is_64bit = byte(raw::EI_CLASS) == raw::ELFCLASS64;
  if (byte(raw::EI_DATA) != raw::ELFDATA2LSB && byte(raw::EI_DATA) != raw::ELFDATA2MSB)
    return fail(
        ErrorKind::corrupt,
        fmt::format("ELF data encoding {} is neither little nor big endian", byte(raw::EI_DATA)));
  machine.order = byte(raw::EI_DATA) == raw::ELFDATA2LSB ? ByteOrder::little : ByteOrder::big;

  constexpr std::uint64_t machine_at = raw::EI_NIDENT + 2; // e_machine follows e_type, all classes
  const auto id = read_at<std::uint16_t>(image, machine_at, machine.order);
  if (!id || image.size() < file_header_size(machine))
    return fail(ErrorKind::corrupt, fmt::format("ELF header is truncated, {} of {} bytes",
                                                image.size(), file_header_size(machine)));
  machine.id = *id;
  return machine;
}

Result<void> check_type(std::uint16_t type) {
  switch (type) {
  case raw::ET_EXEC:
  case raw::ET_DYN:
    return {};
  case raw::ET_REL:
    return fail(Error{ErrorKind::unsupported,
                      "relocatable object, its code is nowhere loaded as it lies in this file"}
                    .hint("probe the program or library it was linked into"));
  case raw::ET_CORE:
    return fail(Error{ErrorKind::unsupported, "core dump, not a program or library"}.hint(
        "probe the program or library that dumped it"));
  default:
    return fail(ErrorKind::unsupported,
                fmt::format("ELF type {} is neither a program nor a library", hex(type)));
  }
}

// The limits are the kernel's own, fs/binfmt_elf.c load_elf_phdrs(): what it would not load can not
// be probed. They also refuse PN_XNUM (0xffff), which only core dumps use.
Result<Bytes> program_header_bytes(const Layout& layout) {
  const FileHeader& header = layout.header;
  constexpr std::uint64_t most_bytes = 65536;
  const std::uint64_t entry = program_header_size(layout.machine);
  if (header.program_header_count == 0)
    return fail(ErrorKind::corrupt, "no program headers, nothing of this file is ever loaded");
  if (header.program_header_size != entry)
    return fail(ErrorKind::corrupt, fmt::format("program headers of {} bytes where {} are due",
                                                header.program_header_size, entry));
  const std::uint64_t size = header.program_header_count * entry;
  if (size > most_bytes)
    return fail(ErrorKind::corrupt,
                fmt::format("{} program headers, more than the {} the kernel accepts",
                            header.program_header_count, most_bytes / entry));
  const auto table = slice(layout.bytes, header.program_headers, size);
  if (!table)
    return fail(ErrorKind::corrupt,
                fmt::format("program headers at {}, {} bytes, lie outside the file of {} bytes",
                            hex(header.program_headers), size, layout.bytes.size()));
  return *table;
}

void add_load(Layout& layout, const ProgramHeader& header) {
  const std::uint64_t available =
      header.offset < layout.bytes.size() ? layout.bytes.size() - header.offset : 0;
  if (header.file_size > available) layout.truncated = true;
  layout.segments.push_back({.address = {header.address},
                             .memory_size = header.memory_size,
                             .offset = {header.offset},
                             .file_size = std::min(header.file_size, available),
                             .alignment = header.alignment,
                             .readable = (header.flags & raw::PF_R) != 0,
                             .writable = (header.flags & raw::PF_W) != 0,
                             .executable = (header.flags & raw::PF_X) != 0});
}

} // namespace

std::string hex(std::uint64_t number) { return fmt::format("{:#x}", number); }

Result<Layout> read_sections_only(Bytes image) {
  const auto machine = read_identification(image);
  if (!machine) return fail(machine.error());
  Layout layout{.bytes = image, .machine = *machine};
  layout.header = *read_file_header(image, *machine);
  return layout;
}

Result<Layout> read_layout(Bytes image) {
  auto read = read_sections_only(image);
  if (!read) return read;
  Layout layout = std::move(*read);
  if (const auto type = check_type(layout.header.type); !type) return fail(type.error());
  const auto table = program_header_bytes(layout);
  if (!table) return fail(table.error());

  const std::uint64_t entry = program_header_size(layout.machine);
  for (std::uint64_t at = 0; at < table->size(); at += entry) {
    const auto header = read_program_header(*table, at, layout.machine);
    if (header->type == raw::PT_LOAD) add_load(layout, *header);
    if (header->type == raw::PT_NOTE)
      layout.notes.push_back({{header->offset, header->file_size},
                              header->alignment == 8 ? std::uint64_t{8} : std::uint64_t{4}});
    if (header->type == raw::PT_DYNAMIC && header->file_size > 0)
      layout.dynamic = DynamicSegment{{header->address}, header->file_size};
    if (header->type == raw::PT_GNU_EH_FRAME)
      layout.frame_table = AddressRange{{header->address}, header->file_size};
  }
  return layout;
}

const Segment* segment_of(const Layout& layout, VirtualAddress address) {
  for (const Segment& segment : layout.segments)
    if (address >= segment.address && address.value - segment.address.value < segment.file_size)
      return &segment;
  return nullptr;
}

std::optional<Bytes> bytes_from(const Layout& layout, VirtualAddress address) {
  const Segment* segment = segment_of(layout, address);
  if (segment == nullptr) return std::nullopt;
  const std::uint64_t skipped = address.value - segment->address.value;
  return slice(layout.bytes, segment->offset.value + skipped, segment->file_size - skipped);
}

Error unmapped(const Layout& layout, std::string_view tag, VirtualAddress address) {
  Error error{ErrorKind::corrupt,
              fmt::format("{} address {} has no bytes in the file", tag, hex(address.value))};
  if (layout.truncated)
    return std::move(error).hint("the file is shorter than its segments, it seems to be truncated");
  return error;
}

} // namespace uprobectl::elf
