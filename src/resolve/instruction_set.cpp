#include "resolve/instruction_set.hpp"

namespace uprobectl {

std::optional<InstructionSet> instruction_set(const elf::Machine& machine, bool thumb) {
  switch (machine.id) {
  case 3: // EM_386
    return InstructionSet::i386;
  case 62: // EM_X86_64, with 32-bit pointers (x32) too
    return InstructionSet::x86_64;
  case 183: // EM_AARCH64: little-endian instructions whatever the data are
    return InstructionSet::arm64;
  case 40: // EM_ARM; whether the code of a big-endian file is so depends on its age (BE32, BE8)
    if (!thumb) return InstructionSet::arm;
    if (machine.order == ByteOrder::big) return std::nullopt;
    return InstructionSet::thumb;
  default:
    return std::nullopt;
  }
}

} // namespace uprobectl
