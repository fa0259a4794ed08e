// Entries of .eh_frame (LSB core 5.0, 10.6.1) and .debug_frame (DWARF 5, 6.4.1): common
// information (CIE) and what belongs to one function (FDE). Each is read by itself, so that a bad
// one costs nobody else. Little-endian with 64-bit addresses, as all that is unwound here is.
#pragma once

#include "elf/dwarf_cursor.hpp"

namespace uprobectl::stacks {

struct FrameSection {
  enum class Kind : std::uint8_t { eh_frame, debug_frame };
  Kind kind = Kind::eh_frame;
  Bytes bytes;
  VirtualAddress address; // where the bytes are loaded; of no account in .debug_frame
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
  bool signal_frame = false; // 'S': the caller was interrupted, it has called nothing
  Extent instructions;
};

struct Fde {
  std::uint64_t begin = 0; // of its code, ELF addresses
  std::uint64_t size = 0;
  std::uint64_t cie_at = 0;
  Extent instructions;

  bool covers(std::uint64_t address) const { return address - begin < size; }
};

// What precedes the content of either.
struct EntryHead {
  // empty: a length of 0, the end of what one object file had; neither: too short to say.
  enum class Kind : std::uint8_t { empty, cie, fde, neither };
  Kind kind = Kind::empty;
  std::uint64_t cie_at = 0; // of an FDE
  Extent body;
};

// Nothing where the section ends before the entry does.
std::optional<EntryHead> read_entry_head(const FrameSection& section, std::uint64_t at);

// corrupt, or unsupported for what no producer is known to write.
Result<Cie> read_cie(const FrameSection& section, std::uint64_t at);
// The address range alone needs its CIE's encoding.
Result<Fde> read_fde(const FrameSection& section, const EntryHead& head, const Cie& cie);

// A pointer encoded as DW_EH_PE_* says (LSB core 5.0, 10.5). `field`: the run-time address of the
// cursor's bytes; `data`: what DW_EH_PE_datarel counts from. Nothing for those that only a running
// program could resolve, and those that are not all inside.
std::optional<std::uint64_t> read_pointer(elf::DwarfCursor& cursor, std::uint8_t encoding,
                                          std::uint64_t field, std::uint64_t data);
constexpr std::uint8_t pointer_omitted = 0xff; // DW_EH_PE_omit

} // namespace uprobectl::stacks
