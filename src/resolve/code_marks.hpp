// Where data lie between the instructions of a function. x86 files do not tell; ARM and AArch64
// assemblers leave mapping symbols ($a, $t, $x, $d: ELF for the Arm Architecture, 5.5.5), which
// stripped files have lost.
#pragma once

#include "uprobectl/elf.hpp"

#include <vector>

namespace uprobectl {

class CodeMarks {
public:
  // Reads .symtab and what debug tables the image has been given, once.
  explicit CodeMarks(const elf::Image& image);

  struct Mark {
    VirtualAddress address; // from here on
    bool data = false;      // else instructions
  };
  // The last mark at or before the address.
  std::optional<Mark> last_before(VirtualAddress address) const;

private:
  std::vector<Mark> marks_; // by address
};

} // namespace uprobectl
