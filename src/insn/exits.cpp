#include "insn/indirect_jump.hpp"

#include <algorithm>
#include <array>

namespace uprobectl {

namespace {

constexpr std::byte notrack_prefix{0x3e};

// "RET64", "RETI64", "RETAA"; not "IRET64", "LRET64", "SYSRET", "ERET".
bool is_return(std::string_view name) { return name.starts_with("RET"); }

class ExitReader {
public:
  ExitReader(const Decoder& decoder, Arch arch, Bytes function, VirtualAddress address)
      : decoder_(decoder), arch_(arch), function_(function), address_(address),
        indirect_(decoder, arch) {}

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
    exits_.undecodable.push_back(start);
    exits_.runs_on = false;
    const std::uint64_t size = arch_info(arch_).instruction_size;
    at_ = start + size;
    return size != 0;
  }

  void take(const Decoder::Decoded& decoded, VirtualAddress place, std::uint64_t start) {
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    note_end(decoded);
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
    if (!target) return;
    const bool again = target == address_ && start != 0;
    if (!again && target->value - address_.value < function_.size()) return;
    FunctionExits::Jump jump{.offset = start, .target = target};
    if (!decoder_.description(decoded).isBarrier()) jump.condition = condition_of(decoded);
    (again ? exits_.jumps_again : exits_.jumps_out).push_back(jump);
  }

  JumpCondition condition_of(const Decoder::Decoded& decoded) const {
    using Test = JumpCondition::Test;
    const std::string_view name = decoder_.name(decoded);
    const llvm::MCInst& instruction = decoded.instruction;
    const auto number = [&](unsigned operand) {
      return static_cast<std::uint8_t>(instruction.getOperand(operand).getImm());
    };
    // (target, condition) and (condition, target).
    if (name.starts_with("JCC_")) return {.test = Test::flags, .code = number(1)};
    if (name == "Bcc" || name == "BCcc") {
      constexpr std::uint8_t al = 14; // and nv, which is the same
      return {.test = number(0) >= al ? Test::always : Test::flags, .code = number(0)};
    }
    const bool bit = name.starts_with("TB");
    const std::string_view rest = name.substr(std::min<std::size_t>(name.size(), 2));
    const bool inverted = rest.starts_with("NZ");
    const std::string_view width =
        rest.substr(std::min<std::size_t>(rest.size(), inverted ? 2 : 1));
    if ((!bit && !name.starts_with("CB")) || !rest.starts_with(inverted ? "NZ" : "Z") ||
        (width != "W" && width != "X"))
      return {.test = Test::unknown};
    JumpCondition condition{.test = bit        ? inverted ? Test::bit_set : Test::bit_clear
                                    : inverted ? Test::not_zero
                                               : Test::zero,
                            .tested = decoder_.register_code(instruction.getOperand(0).getReg()),
                            .size = static_cast<std::uint8_t>(width == "X" ? 8 : 4)};
    if (bit) condition.code = number(1);
    return condition;
  }

  // Whether what comes next is run after the instruction. A call may come back from none, nothing
  // but nops fill up a function.
  void note_end(const Decoder::Decoded& decoded) {
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    const std::string_view name = decoder_.name(decoded);
    constexpr std::array<std::string_view, 9> ends = {"TRAP", "UD1",  "HLT",  "INT3",  "BRK",
                                                      "UDF",  "LRET", "IRET", "SYSRET"};
    if (name.starts_with("NOOP") || name == "HINT") return;
    exits_.runs_on =
        !description.isBarrier() && !description.isCall() && !description.isReturn() &&
        std::ranges::none_of(ends, [&](std::string_view end) { return name.starts_with(end); });
  }

  // Only prefixes can be before the opcode, and 0xff is none.
  bool has_notrack(std::uint64_t start) const {
    if (arch_ == Arch::arm64) return false;
    const Bytes instruction = function_.subspan(start, at_ - start);
    const auto opcode = std::ranges::find(instruction, std::byte{0xff});
    return std::find(instruction.begin(), opcode, notrack_prefix) != opcode;
  }

  const Decoder& decoder_;
  Arch arch_;
  Bytes function_;
  VirtualAddress address_;
  IndirectJumps indirect_;
  std::uint64_t at_ = 0;
  FunctionExits exits_;
};

} // namespace

std::optional<FunctionExits> function_exits(Arch arch, Bytes function, VirtualAddress address) {
  const Decoder* decoder = Decoder::of(arch);
  if (decoder == nullptr) return std::nullopt;
  return ExitReader(*decoder, arch, function, address).read();
}

} // namespace uprobectl
