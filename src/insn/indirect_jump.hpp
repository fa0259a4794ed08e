// Jumps through a register or memory: whether one is the dispatch of a `switch`, which stays in its
// function, or may be a tail call.
#pragma once

#include "insn/decoder.hpp"

namespace uprobectl {

// Reads a function's instructions in order and remembers what the next jump depends on.
class IndirectJumps {
public:
  IndirectJumps(const Decoder& decoder, Arch arch) : decoder_(decoder), arch_(arch) {}

  void pass(const Decoder::Decoded& decoded);

  // The form of an indirect jump (MCInstrDesc::isIndirectBranch) at the address, offset left out.
  // notrack: with the prefix by which code for CET marks a jump to a place without a landing pad.
  FunctionExits::Jump classify(const Decoder::Decoded& decoded, VirtualAddress address,
                               bool notrack) const;

private:
  FunctionExits::Jump through_memory(const Decoder::Decoded& decoded, VirtualAddress address) const;
  bool is_restored(unsigned number) const;
  bool moves_stack(const Decoder::Decoded& decoded) const;

  const Decoder& decoder_;
  Arch arch_;
  unsigned sum_ = 0;         // the register that was last set to a sum of registers, 0: none
  bool stack_moved_ = false; // since the last jump
};

} // namespace uprobectl
