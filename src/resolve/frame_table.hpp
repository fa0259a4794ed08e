// SPDX-License-Identifier: Apache-2.0
// The extent of code without a symbol, from unwind data. A stripped library has no names for the
// cold parts of its functions, but still has unwind data for them.
#pragma once

#include "elf/layout.hpp"

namespace uprobectl::resolve {

// The code that one frame description (FDE) covers.
struct FramePiece {
  elf::AddressRange range;
  // The frame is already set up at the start of the range: it is entered by a jump, not a call.
  bool inside_frame = false;
  bool has_handlers = false; // of exceptions (an LSDA), which the unwinder jumps to
};

// Looks up addresses in .eh_frame_hdr, as unwinders do (LSB core 5.0, 10.6; DWARF 5, 6.4), or in
// .eh_frame if there is no header, as in static programs. Supports the encodings that GNU ld, gold,
// lld and mold write.
class FrameTable {
public:
  // The image's bytes must outlive the table. The table is empty if the image has no unwind data.
  explicit FrameTable(const elf::Image& image);

  // Returns the piece that covers the address.
  std::optional<FramePiece> piece_at(VirtualAddress address) const;

private:
  struct Entry {
    VirtualAddress start;       // of the code
    VirtualAddress description; // its FDE
  };
  void read_header();
  void list_descriptions();
  Bytes bytes_from(VirtualAddress address) const;
  std::uint64_t size() const;
  std::optional<Entry> entry(std::uint64_t index) const;
  std::optional<FramePiece> read(const Entry& entry) const;
  bool has_augmentation(VirtualAddress description, std::uint32_t distance) const;

  elf::Layout layout_;
  VirtualAddress header_;     // of .eh_frame_hdr
  Bytes table_;               // its entries
  std::vector<Entry> listed_; // without .eh_frame_hdr, by the start
};

} // namespace uprobectl::resolve
