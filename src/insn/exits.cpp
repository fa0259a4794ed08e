// SPDX-License-Identifier: Apache-2.0
// Finds the exits of a function: returns, jumps out of it, and indirect jumps. An indirect jump can
// be the jump table of a `switch`, which stays in the function, or a tail call.
#include "insn/decoder.hpp"
#include "insn/reached_code.hpp"
#include "util/text.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::insn {

namespace {

// Classifies indirect jumps by the instructions before them.
class IndirectJumpClassifier {
public:
  IndirectJumpClassifier(const Decoder& decoder, Arch arch) : decoder_(decoder), arch_(arch) {}

  // Tracks the effect of an instruction. Call it for every instruction in order.
  void track(const Decoder::Decoded& decoded);

  // Classifies an indirect jump (MCInstrDesc::isIndirectBranch) at the address. Does not set its
  // offset. notrack: it has the prefix with which CET code marks a jump to a target without endbr.
  FunctionExits::Jump classify(const Decoder::Decoded& decoded, VirtualAddress address,
                               bool notrack) const;

private:
  FunctionExits::Jump through_memory(const Decoder::Decoded& decoded, VirtualAddress address) const;
  bool is_callee_saved(unsigned number) const;
  bool moves_stack(const Decoder::Decoded& decoded) const;

  const Decoder& decoder_;
  Arch arch_;
  unsigned sum_ = 0;         // the register that was last set to a sum, 0 if none
  bool stack_moved_ = false; // raised since the last jump
};

using Jump = FunctionExits::Jump;
using JumpKind = Jump::Kind;

// Operand indexes of an x86 memory operand in LLVM (llvm/lib/Target/X86/MCTargetDesc/
// X86BaseInfo.h, AddrBaseReg and the following).
constexpr unsigned base_operand = 0;
constexpr unsigned scale_operand = 1;
constexpr unsigned index_operand = 2;
constexpr unsigned displacement_operand = 3;
constexpr unsigned segment_operand = 4;
constexpr unsigned memory_operands = 5;

// Whether it is an `add` of a register or memory to a register, as of a jump table's entry to its
// base. An `add` of an immediate computes a fixed address.
bool is_sum(Arch arch, std::string_view name) {
  if (arch == Arch::arm64) return name.starts_with("ADDXrs") || name.starts_with("ADDXrx");
  const std::string_view add = arch == Arch::i386 ? "ADD32r" : "ADD64r";
  return name.starts_with(add) && (name[add.size()] == 'r' || name[add.size()] == 'm');
}

void IndirectJumpClassifier::track(const Decoder::Decoded& decoded) {
  const llvm::MCInstrDesc& description = decoder_.description(decoded);
  if (description.isCall()) sum_ = 0; // the callee may change the register
  stack_moved_ = description.isTerminator() ? false : stack_moved_ || moves_stack(decoded);
  const llvm::MCInst& instruction = decoded.instruction;
  for (unsigned i = 0; i < description.getNumDefs() && i < instruction.getNumOperands(); ++i) {
    const llvm::MCOperand& operand = instruction.getOperand(i);
    if (!operand.isReg()) continue;
    if (is_sum(arch_, decoder_.name(decoded)))
      sum_ = operand.getReg();
    else if (operand.getReg() == sum_)
      sum_ = 0;
  }
}

// Whether the instruction raises the stack pointer, as an epilogue does: pop, leave, an addition to
// the stack pointer, a load with writeback. Pushes and calls do not count.
bool IndirectJumpClassifier::moves_stack(const Decoder::Decoded& decoded) const {
  const std::string_view name = decoder_.name(decoded);
  if (name.starts_with("POP") || name.starts_with("LEAVE")) return true;
  const llvm::MCInstrDesc& description = decoder_.description(decoded);
  const llvm::MCInst& instruction = decoded.instruction;
  for (unsigned i = 0; i < description.getNumDefs() && i < instruction.getNumOperands(); ++i) {
    if (!instruction.getOperand(i).isReg()) continue;
    const std::string_view set = decoder_.register_name(instruction.getOperand(i).getReg());
    if (set == "RSP" || set == "ESP" || set == "SP") return true;
  }
  return false;
}

// A callee-saved register has the caller's value again before a tail call, so it cannot be its
// target.
bool IndirectJumpClassifier::is_callee_saved(unsigned number) const {
  // LLVM's register names are those of ArchInfo in capitals.
  const auto& saved = arch_info(arch_).callee_saved;
  return std::ranges::find(saved, lower_case(decoder_.register_name(number))) != saved.end();
}

Jump IndirectJumpClassifier::classify(const Decoder::Decoded& decoded, VirtualAddress address,
                                      bool notrack) const {
  const llvm::MCInst& instruction = decoded.instruction;
  Jump jump{.kind = JumpKind::indirect};
  if (instruction.getNumOperands() >= memory_operands && arch_ != Arch::arm64) {
    jump = through_memory(decoded, address);
  } else if (instruction.getNumOperands() > 0 && instruction.getOperand(0).isReg()) {
    const unsigned number = instruction.getOperand(0).getReg();
    jump.is_heuristic = sum_ != 0 && number == sum_ && !is_callee_saved(number);
    if (jump.is_heuristic || is_callee_saved(number)) jump.kind = JumpKind::table;
    // The target of an authenticating branch (braa) is not the register's value.
    const bool plain = arch_ != Arch::arm64 || decoder_.name(decoded) == "BR";
    if (plain) jump.source = JumpSource{.base = decoder_.register_encoding(number)};
  }
  jump.moves_stack = stack_moved_;
  if (notrack) {
    jump.kind = JumpKind::table;
    jump.is_heuristic = false;
    jump.slot.reset();
  }
  return jump;
}

Jump IndirectJumpClassifier::through_memory(const Decoder::Decoded& decoded,
                                            VirtualAddress address) const {
  const llvm::MCInst& instruction = decoded.instruction;
  const auto register_at = [&](unsigned operand) {
    return instruction.getOperand(operand).getReg();
  };
  const llvm::MCOperand& displacement = instruction.getOperand(displacement_operand);
  const bool is_far = decoder_.name(decoded).starts_with("FAR");
  if (register_at(segment_operand) != 0 || !displacement.isImm() || is_far)
    return {.kind = JumpKind::indirect};
  if (const auto slot = decoder_.memory_address(decoded, address))
    return {.kind = JumpKind::jump, .slot = slot};
  if (register_at(base_operand) == 0 && register_at(index_operand) == 0) {
    auto slot = static_cast<std::uint64_t>(displacement.getImm());
    if (arch_ == Arch::i386) slot = static_cast<std::uint32_t>(slot);
    return {.kind = JumpKind::jump, .slot = VirtualAddress{slot}};
  }
  JumpSource source{.in_memory = true, .displacement = displacement.getImm()};
  if (const unsigned base = register_at(base_operand); base != 0)
    source.base = decoder_.register_encoding(base);
  if (const unsigned index = register_at(index_operand); index != 0) {
    source.index = decoder_.register_encoding(index);
    source.scale = static_cast<std::uint8_t>(instruction.getOperand(scale_operand).getImm());
  }
  return {.kind = source.index ? JumpKind::table : JumpKind::indirect,
          .is_heuristic = source.index.has_value(),
          .source = source};
}

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
    drop_literals();
    exits_.may_be_in_data = may_be_in_data();
    return std::move(exits_);
  }

  FunctionExits read(const std::vector<bool>& instructions) {
    for (std::uint64_t offset = 0; offset < function_.size(); ++offset) {
      if (!instructions[offset]) continue;
      at_ = offset;
      step();
    }
    return std::move(exits_);
  }

private:
  // Reads one instruction. Returns false if decoding cannot continue.
  bool step() {
    const std::uint64_t start = at_; // LLVM may return prefixes as separate instructions
    for (;;) {
      const VirtualAddress address{address_.value + at_};
      const auto decoded = decoder_.decode(function_.subspan(at_), address);
      if (!decoded) return skip(start);
      at_ += decoded->size;
      if (decoded->only_prefix && at_ - start < max_x86_instruction_size && at_ < function_.size())
        continue;
      if (decoded->only_prefix || at_ - start > max_x86_instruction_size) return skip(start);
      add(*decoded, address, start);
      note(*decoded, address, start);
      return true;
    }
  }

  // Notes what may_be_in_data() and drop_literals() need.
  void note(const Decoder::Decoded& decoded, VirtualAddress address, std::uint64_t start) {
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    if (arch_ == Arch::arm64)
      note_literal(start);
    else
      starts_.push_back(start);
    if (decoder_.ends_flow(decoded)) ends_.push_back(at_);
    if (!description.isBranch() && !description.isCall()) {
      names_itself_ = names_itself_ || names_function(decoded, address, start);
      return;
    }
    const auto target = decoder_.branch_target(decoded, address);
    if (target && target->value - address_.value < function_.size())
      branches_.push_back({.target = target->value - address_.value, .from = start});
  }

  // Whether an operand relative to the instruction is in the function. On arm64 that of adr.
  bool names_function(const Decoder::Decoded& decoded, VirtualAddress address,
                      std::uint64_t start) const {
    if (arch_ == Arch::arm64) {
      const auto word = read_at<std::uint32_t>(function_, start);
      return word && (*word & 0x9f000000U) == 0x10000000U;
    }
    const auto memory = decoder_.memory_address(decoded, address);
    return memory && memory->value - address_.value < function_.size();
  }

  void note_literal(std::uint64_t start) {
    // Load register (literal) and its SIMD form (DDI 0602): 19 bits with the distance in words.
    const auto word = read_at<std::uint32_t>(function_, start);
    if (!word || (*word & 0x3b000000U) != 0x18000000U || *word >> 30U == 3) return;
    constexpr std::uint64_t word_size = 4;
    const auto distance = static_cast<std::int32_t>(*word << 8U) >> 13U;
    const std::uint64_t at = start + static_cast<std::uint64_t>(distance) * word_size;
    const bool is_simd = (*word >> 26U & 1U) != 0;
    const std::uint32_t wide = *word >> 30U;
    const std::uint64_t size = is_simd ? word_size << wide : wide == 1 ? 8 : word_size;
    if (at < function_.size()) literals_.push_back({at, size});
  }

  // Words that an instruction loads are data.
  void drop_literals() {
    if (literals_.empty()) return;
    std::vector<bool> loaded(function_.size());
    for (const Literal& each : literals_) {
      const std::uint64_t end = std::min<std::uint64_t>(each.begin + each.size, loaded.size());
      for (std::uint64_t at = each.begin; at < end; ++at) loaded[at] = true;
    }
    const auto is_literal = [&](std::uint64_t offset) { return loaded[offset]; };
    std::erase_if(exits_.returns, is_literal);
    std::erase_if(exits_.undecodable, is_literal);
    const auto drop = [&](std::vector<Jump>& jumps) {
      std::erase_if(jumps, [&](const Jump& jump) { return is_literal(jump.offset); });
    };
    drop(exits_.jumps_out);
    drop(exits_.jumps_to_entry);
  }

  bool may_be_in_data() {
    const bool starts_elsewhere = std::ranges::any_of(branches_, [&](const Branch& branch) {
      return arch_ != Arch::arm64 && !std::ranges::binary_search(starts_, branch.target);
    });
    if (starts_elsewhere || !exits_.undecodable.empty()) return true;
    if (!names_itself_) return false; // it loads nothing of its own
    // The code between two ends. `reached`: where the first branch from other code leads to.
    const auto block_of = [&](std::uint64_t offset) {
      return static_cast<std::size_t>(std::ranges::upper_bound(ends_, offset) - ends_.begin());
    };
    std::vector<std::uint64_t> reached(ends_.size() + 1, function_.size());
    reached.front() = 0;
    for (const Branch& branch : branches_) {
      std::uint64_t& first = reached[block_of(branch.target)];
      if (block_of(branch.from) != block_of(branch.target)) first = std::min(first, branch.target);
    }
    const auto is_unreached = [&](std::uint64_t offset) {
      return offset < reached[block_of(offset)];
    };
    const auto any_of = [&](const std::vector<Jump>& jumps) {
      return std::ranges::any_of(jumps,
                                 [&](const Jump& jump) { return is_unreached(jump.offset); });
    };
    return std::ranges::any_of(exits_.returns, is_unreached) || any_of(exits_.jumps_out) ||
           any_of(exits_.jumps_to_entry);
  }

  bool skip(std::uint64_t start) {
    exits_.undecodable.push_back(start);
    exits_.falls_through = false;
    const std::uint64_t size = arch_info(arch_).instruction_size;
    at_ = start + size;
    return size != 0;
  }

  void add(const Decoder::Decoded& decoded, VirtualAddress address, std::uint64_t start) {
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    update_falls_through(decoded);
    if (description.isIndirectBranch()) {
      auto jump = indirect_.classify(decoded, address, has_notrack(start));
      jump.offset = start;
      exits_.jumps_out.push_back(jump);
    } else if (description.isReturn()) {
      if (is_return(decoder_.name(decoded))) exits_.returns.push_back(start);
    } else if (description.isBranch() && !description.isCall()) {
      add_branch(decoded, address, start);
    }
    indirect_.track(decoded);
  }

  void add_branch(const Decoder::Decoded& decoded, VirtualAddress address, std::uint64_t start) {
    const auto target = decoder_.branch_target(decoded, address);
    if (!target) return;
    const bool to_entry = target == address_ && start != 0;
    if (!to_entry && target->value - address_.value < function_.size()) return;
    FunctionExits::Jump jump{.offset = start, .target = target};
    if (!decoder_.description(decoded).isBarrier()) jump.condition = condition_of(decoded);
    (to_entry ? exits_.jumps_to_entry : exits_.jumps_out).push_back(jump);
  }

  JumpCondition condition_of(const Decoder::Decoded& decoded) const {
    using Test = JumpCondition::Test;
    const std::string_view name = decoder_.name(decoded);
    const llvm::MCInst& instruction = decoded.instruction;
    const auto number = [&](unsigned operand) {
      return static_cast<std::uint8_t>(instruction.getOperand(operand).getImm());
    };
    // The operands are (target, condition) on x86 and (condition, target) on arm64.
    if (name.starts_with("JCC_")) return {.test = Test::flags, .code = number(1)};
    if (name == "Bcc" || name == "BCcc") {
      constexpr std::uint8_t al = 14; // nv (15) is the same
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
                            .tested =
                                decoder_.register_encoding(instruction.getOperand(0).getReg()),
                            .size = static_cast<std::uint8_t>(width == "X" ? 8 : 4)};
    if (bit) condition.code = number(1);
    return condition;
  }

  // Sets whether control continues after the instruction. A call may not return, and nops are
  // padding.
  void update_falls_through(const Decoder::Decoded& decoded) {
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    const std::string_view name = decoder_.name(decoded);
    constexpr std::array<std::string_view, 9> ends = {"TRAP", "UD1",  "HLT",  "INT3",  "BRK",
                                                      "UDF",  "LRET", "IRET", "SYSRET"};
    if (name.starts_with("NOOP") || name == "HINT") return;
    exits_.falls_through =
        !description.isBarrier() && !description.isCall() && !description.isReturn() &&
        std::ranges::none_of(ends, [&](std::string_view end) { return name.starts_with(end); });
  }

  // Only prefixes precede the opcode 0xff.
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
  IndirectJumpClassifier indirect_;
  std::uint64_t at_ = 0;
  FunctionExits exits_;

  // Offsets.
  struct Branch {
    std::uint64_t target = 0;
    std::uint64_t from = 0;
  };
  struct Literal {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
  };
  std::vector<std::uint64_t> starts_; // of instructions; not on arm64
  std::vector<std::uint64_t> ends_;   // of those after which control does not continue
  std::vector<Branch> branches_;      // direct branches and calls that stay in the function
  bool names_itself_ = false;
  std::vector<Literal> literals_; // arm64
};

} // namespace

std::optional<FunctionExits> function_exits(Arch arch, Bytes function, VirtualAddress address) {
  const Decoder* decoder = Decoder::for_arch(arch);
  if (decoder == nullptr) return std::nullopt;
  return ExitReader(*decoder, arch, function, address).read();
}

std::optional<FunctionExits> reached_exits(Arch arch, Bytes function, VirtualAddress address,
                                           std::span<const VirtualAddress> entries) {
  const Decoder* const decoder = Decoder::for_arch(arch);
  const auto reached = reached_code(arch, function, address, entries);
  if (decoder == nullptr || !reached) return std::nullopt;
  return ExitReader(*decoder, arch, function, address)
      .read(instructions_in(arch, function, *reached));
}

} // namespace uprobectl::insn
