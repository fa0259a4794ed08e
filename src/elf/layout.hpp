// SPDX-License-Identifier: Apache-2.0
// The file header and the program headers: they translate addresses to offsets and locate tables
// and notes.
#pragma once

#include "uprobectl/elf.hpp"

namespace uprobectl::elf {

// The location of a PT_NOTE or SHT_NOTE in the file.
struct NoteTable {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;      // bytes
  std::uint64_t alignment = 4; // of name and descriptor, bytes
};

// The content of the headers, checked against the size of the file.
struct Layout {
  Bytes bytes;
  Machine machine;
  VirtualAddress entry;             // e_entry
  bool is_fixed = false;            // ET_EXEC: a program that is not moved
  bool has_section_headers = false; // e_shoff is not 0
  std::vector<Segment> segments;
  std::vector<NoteTable> notes;            // PT_NOTE
  std::optional<AddressRange> dynamic;     // PT_DYNAMIC
  std::optional<AddressRange> frame_table; // PT_GNU_EH_FRAME: .eh_frame_hdr
  std::uint64_t end_of_segments = 0;       // in the file, according to the program headers
  bool truncated = false;                  // the image ends before that
};

// Reads the headers of a program or library. Fails if the file cannot be loaded.
Result<Layout> read_layout(Bytes image);

// Returns the PT_GNU_RELRO segments of an image that read_layout() accepts.
std::vector<AddressRange> read_relro(const Layout& layout);

// Reads the file header only: for debug files, which are never loaded. Segments, notes and other
// data of program headers are empty.
Result<Layout> read_sections_only(Bytes image);

// Null in .bss and in gaps between segments.
const Segment* find_segment(const Layout& layout, VirtualAddress address);

// How many bytes at the start of the segment belong to the file header.
std::uint64_t header_bytes(const Segment& segment, const Machine& machine);

// The file bytes from the address to the end of its segment; nullopt in .bss and gaps.
std::optional<Bytes> bytes_from(const Layout& layout, VirtualAddress address);

// Returns a corrupt error: the address of this tag is not in the file.
Error unmapped(const Layout& layout, std::string_view tag, VirtualAddress address);

std::string hex(std::uint64_t number); // "0x1f"

// Notes (gABI chapter 5, "Note Section"), in notes.cpp.

// NT_GNU_BUILD_ID of a PT_NOTE, in lower-case hex.
std::optional<std::string> read_build_id(const Layout& layout);

// Whether a PT_NOTE has a note of this owner, up to its first NUL, and type.
bool has_note(const Layout& layout, std::string_view owner, std::uint32_t type);

// See Image::visit_notes.
Result<NoteStatistics> visit_notes(const Layout& layout,
                                   const std::function<void(const NoteRecord&)>& visit);

} // namespace uprobectl::elf
