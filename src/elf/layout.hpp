// SPDX-License-Identifier: Apache-2.0
// The file header and the program headers: they translate addresses to offsets and locate the
// tables.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::elf {

// A PT_NOTE or SHT_NOTE.
struct NoteTable {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;      // bytes
  std::uint64_t alignment = 4; // of name and descriptor, bytes
};

struct Layout {
  Bytes bytes;
  Machine machine;
  VirtualAddress entry;             // e_entry
  bool has_section_headers = false; // e_shoff is not 0
  std::vector<Segment> segments;
  std::vector<NoteTable> notes;            // PT_NOTE
  std::optional<AddressRange> dynamic;     // PT_DYNAMIC
  std::optional<AddressRange> frame_table; // PT_GNU_EH_FRAME: .eh_frame_hdr
  std::uint64_t end_of_segments = 0;       // in the file, according to the program headers
  bool truncated = false;                  // the image ends before that
};

Result<Layout> read_layout(Bytes image);

// The same for debug files, which are never loaded: without segments and other data of program
// headers.
Result<Layout> read_sections_only(Bytes image);

const Segment* segment_of(const Layout& layout, VirtualAddress address);

// The file bytes from the address to the end of its segment; nullopt in .bss and gaps.
std::optional<Bytes> bytes_from(const Layout& layout, VirtualAddress address);

// A corrupt error: the address of this tag is not in the file.
Error unmapped(const Layout& layout, std::string_view tag, VirtualAddress address);

std::string hex(std::uint64_t number); // "0x1f"

} // namespace uprobectl::elf
