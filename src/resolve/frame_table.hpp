// SPDX-License-Identifier: Apache-2.0
// The extent of code without a symbol, by unwind data. A stripped library has no names of its
// functions' cold parts but still has these.
#pragma once

#include "elf/layout.hpp"

namespace uprobectl {

// The code that one frame description (FDE) covers.
struct FramePiece {
  elf::AddressRange range;
  // A frame is set up already at its start, so it is entered by a jump, not a call.
  bool inside_frame = false;
};

// Looks up addresses in .eh_frame_hdr, as unwinders do (LSB core 5.0, 10.6; DWARF 5, 6.4). Supports
// the encodings that GNU ld, gold, lld and mold write.
class FrameTable {
public:
  // The image's bytes must outlive the table, which is empty if there are no unwind data.
  explicit FrameTable(const elf::Image& image);

  std::optional<FramePiece> piece_at(VirtualAddress address) const;

private:
  Bytes bytes_from(VirtualAddress address) const;
  std::optional<VirtualAddress> entry(std::uint64_t index, std::uint64_t field) const;
  std::optional<FramePiece> read(VirtualAddress description, VirtualAddress start) const;
  bool has_augmentation(VirtualAddress description, std::uint32_t distance) const;

  elf::Layout layout_;
  VirtualAddress header_; // of .eh_frame_hdr
  Bytes table_;           // its entries
};

} // namespace uprobectl
