#include "insn/indirect_jump.hpp"

#include <algorithm>

namespace uprobectl {

namespace {

constexpr std::uint64_t arm64_word = 4; // bytes
constexpr std::byte notrack_prefix{0x3e};

// "RET64", "RETI64", "RETAA"; not "IRET64", "LRET64", "SYSRET", "ERET".
bool is_return(std::string_view name) { return name.starts_with("RET"); }

class ExitReader {
public:
  ExitReader(const Decoder& decoder, InstructionSet set, Bytes function, VirtualAddress address)
      : decoder_(decoder), set_(set), function_(function), address_(address),
        indirect_(decoder, set) {}

  FunctionExits read() {
    while (at_ < function_.size() && step()) continue;
    return std::move(exits_);
  }

private:
  // Whether there is something to be read after the instruction.
  bool step() {
    const std::uint64_t start = at_; // LLVM may give prefixes of their own before the instruction
    for (;;) {
      const VirtualAddress place{address_.value + at_};
      const auto decoded = decoder_.decode(function_.subspan(at_), place);
      if (!decoded) return skip(start);
      at_ += decoded->size;
      if (decoded->only_prefix && at_ - start < x86_longest_instruction && at_ < function_.size())
        continue;
      if (decoded->only_prefix || at_ - start > x86_longest_instruction) return skip(start);
      take(*decoded, place, start);
      return true;
    }
  }

  bool skip(std::uint64_t start) {
    if (!exits_.undecodable) exits_.undecodable = start;
    at_ = start + arm64_word;
    return set_ == InstructionSet::arm64;
  }

  void take(const Decoder::Decoded& decoded, VirtualAddress place, std::uint64_t start) {
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    if (description.isIndirectBranch()) {
      auto jump = indirect_.classify(decoded, place, has_notrack(start));
      jump.offset = start;
      exits_.jumps_out.push_back(jump);
    } else if (description.isReturn()) {
      if (is_return(decoder_.name(decoded))) exits_.returns.push_back(start);
    } else if (description.isBranch() && !description.isCall()) {
      take_branch(decoded, place, start);
    }
    indirect_.pass(decoded);
  }

  void take_branch(const Decoder::Decoded& decoded, VirtualAddress place, std::uint64_t start) {
    const auto target = decoder_.branch_target(decoded, place);
    if (!target || target->value - address_.value < function_.size()) return;
    exits_.jumps_out.push_back({.offset = start,
                                .kind = FunctionExits::Jump::Kind::jump,
                                .conditional = !decoder_.description(decoded).isBarrier(),
                                .target = target});
  }

  // Only prefixes can be before the opcode, and 0xff is none.
  bool has_notrack(std::uint64_t start) const {
    if (set_ == InstructionSet::arm64) return false;
    const Bytes instruction = function_.subspan(start, at_ - start);
    const auto opcode = std::ranges::find(instruction, std::byte{0xff});
    return std::find(instruction.begin(), opcode, notrack_prefix) != opcode;
  }

  const Decoder& decoder_;
  InstructionSet set_;
  Bytes function_;
  VirtualAddress address_;
  IndirectJumps indirect_;
  std::uint64_t at_ = 0;
  FunctionExits exits_;
};

} // namespace

std::optional<FunctionExits> function_exits(InstructionSet set, Bytes function,
                                            VirtualAddress address) {
  const Decoder* decoder = Decoder::of(set);
  if (decoder == nullptr) return std::nullopt;
  return ExitReader(*decoder, set, function, address).read();
}

} // namespace uprobectl
