// SPDX-License-Identifier: Apache-2.0
// What the instructions of a prologue have stored on the stack.
#pragma once

#include "uprobectl/arch.hpp"

#include <map>
#include <vector>

namespace uprobectl::insn {

// Keeps track of what instructions have stored at registers plus constants.
class FrameStores {
public:
  explicit FrameStores(const ArchInfo& arch) : arch_(arch) {}

  // Takes the next instruction, as instruction_text() has it.
  void add(std::string_view text);

  // Whether the value at the register plus the offset was stored, in pieces of up to 64 bytes.
  bool cover(std::uint8_t dwarf_register, std::int64_t offset, std::uint64_t size) const;

private:
  void forget(std::string_view name);
  void add_x86(std::string_view operation, std::string_view operands);
  void add_arm64(std::string_view operation, std::string_view operands);

  const ArchInfo& arch_;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> stores_; // by register
};

} // namespace uprobectl::insn
