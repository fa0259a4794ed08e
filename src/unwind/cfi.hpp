// SPDX-License-Identifier: Apache-2.0
// Entries of .eh_frame (LSB core 5.0, 10.6.1) and .debug_frame (DWARF 5, 6.4.1): common information
// (CIE) and that of one function (FDE), and how the one of an address is found. Each entry is read
// by itself, so that an invalid one does not affect others. Little-endian with 64-bit addresses
// only, as on all architectures that are unwound.
#pragma once

#include "elf/dwarf_cursor.hpp"

namespace uprobectl::unwind {

struct FrameSection {
  enum class Kind : std::uint8_t { eh_frame, debug_frame };
  Kind kind = Kind::eh_frame;
  Bytes bytes;
  VirtualAddress address; // where the bytes are loaded; unused in .debug_frame
};

// A part of a section.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Cie {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint64_t return_register = 0;
  std::uint8_t pointer_encoding = 0; // DW_EH_PE_*
  bool has_augmentation_data = false;
  bool signal_frame = false; // 'S': the caller was interrupted by a signal
  Extent instructions;
};

struct Fde {
  std::uint64_t begin = 0; // of its code, ELF addresses
  std::uint64_t size = 0;
  std::uint64_t cie_at = 0;
  Extent instructions;

  bool covers(std::uint64_t address) const { return address - begin < size; }
};

// The header that CIE and FDE have in common.
struct EntryHead {
  // empty: a length of 0, which ends the entries of one object file; neither: too short.
  enum class Kind : std::uint8_t { empty, cie, fde, neither };
  Kind kind = Kind::empty;
  std::uint64_t cie_at = 0; // of an FDE
  Extent body;
};

// Returns nullopt if the entry is truncated.
std::optional<EntryHead> read_entry_head(const FrameSection& section, std::uint64_t at);

// corrupt, or unsupported for what no producer is known to write.
Result<Cie> read_cie(const FrameSection& section, std::uint64_t at);
// The CIE gives the encoding of the address range.
Result<Fde> read_fde(const FrameSection& section, const EntryHead& head, const Cie& cie);

// Reads a pointer of a DW_EH_PE_* encoding (LSB core 5.0, 10.5). `field`: the run-time address of
// the cursor's bytes; `data`: the base of DW_EH_PE_datarel. Returns nullopt if it is truncated, or
// indirect, which only a running program could resolve.
std::optional<std::uint64_t> read_pointer(elf::DwarfCursor& cursor, std::uint8_t encoding,
                                          std::uint64_t field, std::uint64_t data);
constexpr std::uint8_t pointer_omitted = 0xff; // DW_EH_PE_omit

// .eh_frame_hdr (LSB core 5.0, 10.6.2): a table of all FDEs, sorted by address by the linker.
struct FrameHeader {
  std::uint64_t frames = 0; // address of .eh_frame
  Bytes table;              // pairs of an address and its FDE's address; may be empty
  std::uint8_t encoding = 0;
  unsigned pointer_size = 4; // bytes, of both
  std::uint64_t address = 0; // of .eh_frame_hdr, the base of the table
};
// `bytes`: from its address to the end of its segment.
std::optional<FrameHeader> read_frame_header(Bytes bytes, VirtualAddress address);
// The address of the FDE of the last function that begins at or before the address.
std::optional<std::uint64_t> look_up(const FrameHeader& header, std::uint64_t address);

struct FoundEntry {
  Cie cie;
  Fde fde;
};

class FrameFinder {
public:
  // `entries`: the part of the section that contains the entries. If its end is not known, an entry
  // of length 0 ends it; otherwise such entries may occur between those of two object files.
  FrameFinder(FrameSection section, Extent entries, bool is_end_known,
              std::optional<FrameHeader> header = std::nullopt);

  const FrameSection& section() const { return section_; }
  // Returns nullopt if no valid entry covers the address.
  std::optional<FoundEntry> find(std::uint64_t address);

private:
  struct IndexEntry {
    std::uint64_t begin;
    std::uint64_t at;
  };

  std::optional<FoundEntry> read(std::uint64_t at) const;
  std::optional<FoundEntry> find_by_header(std::uint64_t address) const;
  void build_index();

  FrameSection section_;
  Extent entries_;
  bool is_end_known_;
  std::optional<FrameHeader> header_;
  bool indexed_ = false;
  std::vector<IndexEntry> index_; // all FDEs, by begin; built when the header first fails to answer
};

} // namespace uprobectl::unwind
