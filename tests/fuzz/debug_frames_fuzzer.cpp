// SPDX-License-Identifier: Apache-2.0
// An ELF file with debug information, whose source frames are read at the addresses of its units
// and of some that are in none.
#include "dwarf/context.hpp"
#include "dwarf/frames.hpp"

#include <cstdlib>

using namespace uprobectl;

namespace {

constexpr std::size_t max_units = 16;

void check_frames(const dwarf::DebugInfo& debug, std::uint64_t address) {
  const auto frames = dwarf::frames_at(debug, {address});
  if (frames.size() > dwarf::max_source_frames) std::abort();
  // All but the last are inlined; the last one, too, if the chain was cut.
  for (std::size_t i = 0; i + 1 < frames.size(); ++i)
    if (!frames[i].is_inlined) std::abort();
}

} // namespace

int fuzz_debug_frames(const std::uint8_t* data, std::size_t size) {
  const auto debug = dwarf::DebugInfo::parse(std::as_bytes(std::span(data, size)));
  if (!debug) return 0;
  for (const std::uint64_t address : {0x0UL, 0x1000UL, 0x1010UL, ~0UL})
    check_frames(*debug, address);
  std::size_t units = 0;
  for (const auto& unit : debug->context().dwarf().normal_units()) {
    if (++units > max_units) break;
    if (!debug->context().has_sound_root(*unit)) continue;
    const dwarf::Die root = unit->getUnitDIE();
    if (!root) continue;
    auto ranges = root.getAddressRanges();
    if (!ranges) {
      llvm::consumeError(ranges.takeError());
      continue;
    }
    for (std::size_t i = 0; i < ranges->size() && i < max_units; ++i)
      for (std::uint64_t distance = 0; distance < 64; distance += 4)
        check_frames(*debug, (*ranges)[i].LowPC + distance);
  }
  return 0;
}
