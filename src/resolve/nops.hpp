// SPDX-License-Identifier: Apache-2.0
// Moves uprobes past nops that the kernel replaces by calls (docs/instructions.md, "Nops of five
// and ten bytes").
#pragma once

#include "uprobectl/elf.hpp"
#include "uprobectl/insn.hpp"

#include <expected>
#include <optional>
#include <vector>

namespace uprobectl::resolve {

class CodeIndex;

// Finds the instruction after a nop where a probe has the same hits.
class NopPasser {
public:
  // Borrows the index. Reads the image at the first pass().
  explicit NopPasser(CodeIndex& code);

  // Returns the number of bytes from a nop to the first instruction after it that can be probed
  // instead. `code` is the function that contains the nop. Returns the reason, in static storage,
  // if there is none: a jump may lead there, too, or the code is not known well enough.
  std::expected<std::uint64_t, std::string_view> pass(VirtualAddress nop, elf::AddressRange code);

private:
  std::optional<std::string_view> find_jump(elf::AddressRange code, Bytes bytes, std::uint64_t nop,
                                            std::uint64_t after);
  void list_far_jumps();
  Bytes code_from(VirtualAddress address) const;
  bool is_after_nop(VirtualAddress address) const;

  CodeIndex& code_;
  Arch arch_;
  // Targets after nops of all jumps and calls with a 32-bit distance in the image, sorted.
  std::optional<std::vector<VirtualAddress>> far_targets_;
  bool knows_far_jumps_ = true; // false if there is too much code to search
  std::uint64_t decoded_ = 0;   // bytes
};

} // namespace uprobectl::resolve
