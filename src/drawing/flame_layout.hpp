// Which frames a flame graph shows, and where.
#pragma once

#include "drawing/frame_nodes.hpp"

namespace uprobectl {

struct PlacedFrame {
  std::uint32_t node = 0;
  std::uint32_t level = 0;  // the row; 0 is that of all stacks
  std::uint64_t at = 0;     // weight to the left of it
  std::uint64_t weight = 0; // of all stacks through it: its width
};

struct FlameLayout {
  std::vector<PlacedFrame> frames; // row by row, from the left; the first is that of all stacks
  std::size_t left_out = 0;        // frames that are too narrow to be seen, or beyond 100000
};

// Callees stand below their caller in the order of their names, then modules; what ends in the
// caller itself is to their right. Frames of less weight than `narrowest` are left out.
FlameLayout lay_out(const FrameNodes& frames, std::uint64_t narrowest);

} // namespace uprobectl
