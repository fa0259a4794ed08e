// SPDX-License-Identifier: Apache-2.0
// The instructions at a probe point: whether one begins there, how it reads, and whether it can be
// probed without harm.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

struct Query;

// Data between the instructions of a function. ARM and AArch64 assemblers mark them with mapping
// symbols ($a, $t, $x, $d: ELF for the Arm Architecture, 5.5.5), which stripped files do not have.
// x86 files have no marks.
class CodeMarks {
public:
  // Reads .symtab and the debug tables of the image, once.
  explicit CodeMarks(const elf::Image& image);

  struct Mark {
    VirtualAddress address; // from here on
    bool data = false;      // else instructions
  };
  // The last mark at or before the address.
  std::optional<Mark> last_at_or_before(VirtualAddress address) const;

private:
  std::vector<Mark> marks_; // by address
};

// Checks the place `plus` bytes into the symbol by decoding from the symbol's start: misaligned if
// it lies inside an instruction. Returns a warning if it does but --unsafe was given, or if this
// could not be found out; nullopt if an instruction begins there. A place outside of the file's
// code is not checked here but by point_at(). Costs nothing for plus = 0.
Result<std::optional<std::string>> check_boundary(const Query& query, const elf::Symbol& symbol,
                                                  std::uint64_t plus);

// Fills in ProbePoint::effect, and ProbePoint::instruction as far as the options ask for it. Unless
// a probe is to be placed (ResolveOptions::to_probe), points that must not be probed get a warning,
// one for each reason.
void finish_points(const Query& query, std::span<ProbePoint> points);

// ProbePoint::effect of the place of a static probe, whose function is not known yet.
ProbeEffect static_probe_effect(const elf::Image& image, VirtualAddress address);

} // namespace uprobectl
