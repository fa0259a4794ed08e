// SPDX-License-Identifier: Apache-2.0
// Call frame information: the entries of .eh_frame (LSB core 5.0, 10.6.1) and .debug_frame (DWARF
// 5, 6.4.1), and the rows of the table that they encode. Each entry is read independently, so that
// an invalid entry does not affect others. Only little-endian sections with 64-bit addresses are
// supported, as on all architectures whose stacks are unwound.
#pragma once

#include "elf/dwarf_cursor.hpp"
#include "uprobectl/unwind/registers.hpp"

namespace uprobectl::unwind {

// The content of a section with call frame information.
struct FrameSection {
  enum class Kind : std::uint8_t { eh_frame, debug_frame };
  Kind kind = Kind::eh_frame;
  Bytes bytes;
  VirtualAddress address; // where the bytes are loaded; unused in .debug_frame
};

// A range of offsets in a section.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Common information entry: what several FDEs share.
struct Cie {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint64_t return_register = 0;
  std::uint8_t pointer_encoding = 0; // DW_EH_PE_*
  bool has_augmentation_data = false;
  bool signal_frame = false; // 'S': the caller was interrupted by a signal
  Extent instructions;
};

// Frame description entry: describes one function.
struct Fde {
  std::uint64_t begin = 0; // of the function's code, ELF address
  std::uint64_t size = 0;
  Extent instructions;

  bool covers(std::uint64_t address) const { return address - begin < size; }
};

// The fields that begin both CIEs and FDEs.
struct EntryHead {
  // terminator: a length of 0, which ends the entries of one object file; too_short: has no CIE id.
  enum class Kind : std::uint8_t { terminator, cie, fde, too_short };
  Kind kind = Kind::terminator;
  std::uint64_t cie_at = 0; // fde: offset of its CIE in the section
  Extent body;
};

// Returns nullopt if the entry is truncated.
std::optional<EntryHead> read_entry_head(const FrameSection& section, std::uint64_t at);

// Reads the CIE at the offset. Fails with corrupt if it is invalid or not supported.
Result<Cie> read_cie(const FrameSection& section, std::uint64_t at);
// Reads the FDE whose head was read. The CIE gives the encoding of its address range.
Result<Fde> read_fde(const FrameSection& section, const EntryHead& head, const Cie& cie);

// Reads a pointer in a DW_EH_PE_* encoding (LSB core 5.0, 10.5). `field`: the address at which the
// cursor's bytes are loaded; `data`: the base of DW_EH_PE_datarel. Returns nullopt if the pointer
// is truncated, or indirect, which only a running program can resolve.
std::optional<std::uint64_t> read_pointer(elf::DwarfCursor& cursor, std::uint8_t encoding,
                                          std::uint64_t field, std::uint64_t data);
constexpr std::uint8_t pointer_omitted = 0xff; // DW_EH_PE_omit

// .eh_frame_hdr (LSB core 5.0, 10.6.2): a table of all FDEs, which the linker sorts by address.
struct FrameHeader {
  std::uint64_t frames = 0; // address of .eh_frame
  Bytes table;              // pairs: address of a function, address of its FDE; may be empty
  std::uint8_t encoding = 0;
  unsigned pointer_size = 4; // bytes, of each address in the table
  std::uint64_t address = 0; // of .eh_frame_hdr, the base of the table
};
// Reads the header. `bytes`: from its address to the end of its segment.
std::optional<FrameHeader> read_frame_header(Bytes bytes, VirtualAddress address);
// Returns the address of the FDE of the last function that begins at or before the address.
std::optional<std::uint64_t> find_fde(const FrameHeader& header, std::uint64_t address);

// An FDE and its CIE.
struct FoundEntry {
  Cie cie;
  Fde fde;
};

// Finds the FDE that covers an address: by the linker's table, or by an index of all entries.
class FrameFinder {
public:
  // `entries`: the range of the section that contains the entries. If its end is not known, the
  // first terminator ends it; otherwise terminators may occur between the entries of two object
  // files.
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
  std::vector<IndexEntry> index_; // all FDEs, by begin; built when the header first finds no FDE
};

// A register rule (DWARF 5, 6.4.1): how to recover a register of the caller.
struct Rule {
  enum class Kind : std::uint8_t {
    unspecified,    // no instruction has set a rule; the register is treated as same_value
    undefined,      // the value cannot be recovered
    same_value,     // the register still has the caller's value
    offset,         // offset(N): saved at the address CFA + N
    val_offset,     // val_offset(N): the value is CFA + N
    in_register,    // register(R): saved in register R
    expression,     // expression(E): saved at the address that E computes
    val_expression, // val_expression(E): the value is what E computes
    // No instruction encodes `architectural`.
  };
  Kind kind = Kind::unspecified;
  std::int32_t value = 0; // N; R; the offset in the section of E's length, see expression_at()
};

// The rule of the canonical frame address (CFA; DWARF 5, 6.4.2.2).
struct CfaRule {
  enum class Kind : std::uint8_t {
    unspecified,
    register_offset, // register + value
    expression,      // the result of the expression whose length is at `value` in the section
  };
  Kind kind = Kind::unspecified;
  std::uint8_t base_register = 0;
  std::int32_t value = 0;
};

// A row of the table that call frame information encodes (DWARF 5, 6.4.1): the rules that recover
// the registers of the caller at one address.
struct Row {
  CfaRule cfa;
  std::uint8_t return_register = 0;
  bool signal_frame = false;
  std::array<Rule, Registers::count> rules = {};
};

// Computes the row of the address. Fails with corrupt if the instructions up to it are invalid.
Result<Row> row_at(const FrameSection& section, const Cie& cie, const Fde& fde,
                   std::uint64_t address);

// Returns the extent of the expression whose length is stored at `at`.
std::optional<Extent> expression_at(const FrameSection& section, std::int32_t at);

} // namespace uprobectl::unwind
