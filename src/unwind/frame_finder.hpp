// Which entry of a frame section covers an address.
#pragma once

#include "unwind/frame_section.hpp"

namespace uprobectl::stacks {

// .eh_frame_hdr (LSB core 5.0, 10.6.2): a table of all FDEs sorted by address, made by the linker.
struct FrameHeader {
  std::uint64_t frames = 0; // address of .eh_frame
  Bytes table;              // pairs of address and FDE's address; empty where there is none
  std::uint8_t encoding = 0;
  unsigned pointer_size = 4; // bytes of each of the two
  std::uint64_t address = 0; // of .eh_frame_hdr, from which the table counts
};
// `bytes`: from its address to the end of its segment.
std::optional<FrameHeader> read_frame_header(Bytes bytes, VirtualAddress address);
// The FDE's address for the last function that begins at or before the address.
std::optional<std::uint64_t> look_up(const FrameHeader& header, std::uint64_t address);

struct FoundEntry {
  Cie cie;
  Fde fde;
};

class FrameFinder {
public:
  // `entries`: the part of the section that holds them. Where its end is not known an entry of
  // length 0 is the last; else object files may have left some in between.
  FrameFinder(FrameSection section, Extent entries, bool is_end_known,
              std::optional<FrameHeader> header = std::nullopt);

  const FrameSection& section() const { return section_; }
  // Nothing where no entry that can be read covers the address.
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
  std::vector<IndexEntry>
      index_; // of all FDEs, by begin; made when the table first fails to answer
};

} // namespace uprobectl::stacks
