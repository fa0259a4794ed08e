// Pieces of code that have no name: where the unwind data say that they begin and end. Stripped
// libraries have lost the names of their functions' cold parts, not these.
#pragma once

#include "elf/layout.hpp"

namespace uprobectl {

// What one frame description (FDE) covers.
struct FramePiece {
  elf::AddressRange range;
  // Where it begins a frame is set up already: so it is jumped into, not called.
  bool inside_frame = false;
};

// Looks pieces up in .eh_frame_hdr, as unwinders do (LSB core 5.0, 10.6; DWARF 5, 6.4). Only with
// the encodings that GNU ld, gold, lld and mold write.
class FrameTable {
public:
  // The image's bytes must outlive the table. Without unwind data it is empty.
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
