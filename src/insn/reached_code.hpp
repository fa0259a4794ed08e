// SPDX-License-Identifier: Apache-2.0
// Which bytes of a function control can reach from its entry. Assembly puts data between
// instructions, and only that tells them apart on x86, where no symbol marks data.
#pragma once

#include "uprobectl/insn.hpp"

#include <span>

namespace uprobectl::insn {

struct ReachedCode {
  // By offset. An instruction can begin inside another one: a jump past a `lock` prefix.
  std::vector<bool> begins;
  std::vector<bool> insides; // the bytes after the first one of an instruction
  // Where data begin that instructions of the function load, in order. Control may reach some, too.
  std::vector<std::uint64_t> loaded;
};

// Follows direct branches and calls from the function's first byte and from the `entries` in it.
// What follows a call or a trap counts as reached. Returns nullopt if the function may jump to more
// of its code: it has an indirect jump, or uses the address of one of its instructions for more
// than a load.
std::optional<ReachedCode> reached_code(Arch arch, Bytes function, VirtualAddress address,
                                        std::span<const VirtualAddress> entries);

// Returns by offset whether an instruction begins there: one that control reaches, or one of other
// code, which jumps from elsewhere may lead to. Other bytes are data if the function loads from
// them, or if they do not decode up to the next reached instruction.
std::vector<bool> instructions_in(Arch arch, Bytes function, const ReachedCode& reached);

} // namespace uprobectl::insn
