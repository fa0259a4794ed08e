// SPDX-License-Identifier: Apache-2.0
// The instruction at a probe point: whether one begins there, its text, and whether a probe on it
// is safe for the program.
#pragma once

#include "uprobectl/resolve.hpp"

namespace uprobectl {

struct Query;

// The mapping symbols of an image, which separate data from instructions in a function. ARM and
// AArch64 assemblers write them ($a, $t, $x, $d: ELF for the Arm Architecture, 5.5.5); stripped
// files and x86 files have none.
class CodeMarks {
public:
  // Reads .symtab and the debug tables of the image, once.
  explicit CodeMarks(const elf::Image& image);

  struct Mark {
    VirtualAddress address; // start of the data or instructions
    bool data = false;      // else instructions
  };
  // Returns the last mark at or before the address.
  std::optional<Mark> last_at_or_before(VirtualAddress address) const;

private:
  std::vector<Mark> marks_; // by address
};

// Checks that an instruction begins `plus` bytes into the symbol, by decoding from its start. Error
// misaligned if the place is inside an instruction. Returns a warning instead with --unsafe, and if
// the code does not decode; nullopt if an instruction begins there. Places outside of the file's
// code are checked by point_at(). Does nothing for plus = 0.
Result<std::optional<std::string>> check_boundary(const Query& query, const elf::Symbol& symbol,
                                                  std::uint64_t plus);

// The same for an address that no symbol covers, by decoding from the start of the code that its
// unwind data (FDE) describe. A warning if there are none and the point will be probed: it may be
// in data between the functions.
Result<std::optional<std::string>> check_unnamed(const Query& query, VirtualAddress address);

// Fills in ProbePoint::effect, and ProbePoint::instruction if the options request it. With
// ResolveOptions::to_probe also ProbePoint::passed_nops; without it, warns of points that must not
// be probed, once for each reason.
void finish_points(const Query& query, std::span<ProbePoint> points);

// Returns an error if the point is in an archive inside an archive: its offset is that in the inner
// archive, and is another place in the file.
std::optional<Error> nested_error(const ProbePoint& point);

} // namespace uprobectl
