#include "insn/indirect_jump.hpp"

#include <algorithm>
#include <array>

namespace uprobectl {

namespace {

using Jump = FunctionExits::Jump;
using Kind = Jump::Kind;

// Where LLVM keeps the parts of an x86 memory operand (llvm/lib/Target/X86/MCTargetDesc/
// X86BaseInfo.h, AddrBaseReg and the following).
constexpr unsigned base_operand = 0;
constexpr unsigned scale_operand = 1;
constexpr unsigned index_operand = 2;
constexpr unsigned displacement_operand = 3;
constexpr unsigned segment_operand = 4;
constexpr unsigned memory_operands = 5;

// `add` of a register or of memory to a register: a table's entry and what it is relative to. An
// immediate makes the address of one certain thing.
bool is_sum(InstructionSet set, std::string_view name) {
  if (set == InstructionSet::arm64) return name.starts_with("ADDXrs") || name.starts_with("ADDXrx");
  const std::string_view add = set == InstructionSet::i386 ? "ADD32r" : "ADD64r";
  return name.starts_with(add) && (name[add.size()] == 'r' || name[add.size()] == 'm');
}

// Whether the function must give the register back as it got it: then it has, before a tail call.
constexpr std::array<std::string_view, 6> restored_x86_64 = {"RBX", "RBP", "R12",
                                                             "R13", "R14", "R15"};
constexpr std::array<std::string_view, 4> restored_i386 = {"EBX", "EBP", "ESI", "EDI"};
constexpr std::array<std::string_view, 10> restored_arm64 = {"X19", "X20", "X21", "X22", "X23",
                                                             "X24", "X25", "X26", "X27", "X28"};

bool has_name(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

} // namespace

void IndirectJumps::pass(const Decoder::Decoded& decoded) {
  const llvm::MCInstrDesc& description = decoder_.description(decoded);
  if (description.isCall()) sum_ = 0; // what it held was the callee's to change
  stack_moved_ = description.isTerminator() ? false : stack_moved_ || moves_stack(decoded);
  const llvm::MCInst& instruction = decoded.instruction;
  for (unsigned i = 0; i < description.getNumDefs() && i < instruction.getNumOperands(); ++i) {
    const llvm::MCOperand& operand = instruction.getOperand(i);
    if (!operand.isReg()) continue;
    if (is_sum(set_, decoder_.name(decoded)))
      sum_ = operand.getReg();
    else if (operand.getReg() == sum_)
      sum_ = 0;
  }
}

// As what takes a frame down does: pop, leave, an addition to the stack pointer, a load that moves
// it on. Pushes and calls are no part of that.
bool IndirectJumps::moves_stack(const Decoder::Decoded& decoded) const {
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

bool IndirectJumps::is_restored(unsigned number) const {
  const std::string_view name = decoder_.register_name(number);
  switch (set_) {
  case InstructionSet::x86_64:
    return has_name(restored_x86_64, name);
  case InstructionSet::i386:
    return has_name(restored_i386, name);
  case InstructionSet::arm64:
    return has_name(restored_arm64, name);
  case InstructionSet::arm:
  case InstructionSet::thumb:
    return false;
  }
  return false;
}

Jump IndirectJumps::classify(const Decoder::Decoded& decoded, VirtualAddress address,
                             bool notrack) const {
  const llvm::MCInst& instruction = decoded.instruction;
  Jump jump{.kind = Kind::indirect};
  if (instruction.getNumOperands() >= memory_operands && set_ != InstructionSet::arm64) {
    jump = through_memory(decoded, address);
  } else if (instruction.getNumOperands() > 0 && instruction.getOperand(0).isReg()) {
    const unsigned number = instruction.getOperand(0).getReg();
    jump.by_form = sum_ != 0 && number == sum_ && !is_restored(number);
    if (jump.by_form || is_restored(number)) jump.kind = Kind::table;
    // Those that authenticate go to less than the register holds.
    const bool plain = set_ != InstructionSet::arm64 || decoder_.name(decoded) == "BR";
    if (plain) jump.source = JumpSource{.base = decoder_.register_code(number)};
  }
  jump.moves_stack = stack_moved_;
  if (notrack) {
    jump.kind = Kind::table;
    jump.by_form = false;
    jump.slot.reset();
  }
  return jump;
}

Jump IndirectJumps::through_memory(const Decoder::Decoded& decoded, VirtualAddress address) const {
  const llvm::MCInst& instruction = decoded.instruction;
  const auto register_at = [&](unsigned operand) {
    return instruction.getOperand(operand).getReg();
  };
  const llvm::MCOperand& displacement = instruction.getOperand(displacement_operand);
  const bool is_far = decoder_.name(decoded).starts_with("FAR");
  if (register_at(segment_operand) != 0 || !displacement.isImm() || is_far)
    return {.kind = Kind::indirect};
  if (const auto slot = decoder_.memory_address(decoded, address))
    return {.kind = Kind::jump, .slot = slot};
  if (register_at(base_operand) == 0 && register_at(index_operand) == 0) {
    auto slot = static_cast<std::uint64_t>(displacement.getImm());
    if (set_ == InstructionSet::i386) slot = static_cast<std::uint32_t>(slot);
    return {.kind = Kind::jump, .slot = VirtualAddress{slot}};
  }
  JumpSource source{.in_memory = true, .displacement = displacement.getImm()};
  if (const unsigned base = register_at(base_operand); base != 0)
    source.base = decoder_.register_code(base);
  if (const unsigned index = register_at(index_operand); index != 0) {
    source.index = decoder_.register_code(index);
    source.scale = static_cast<std::uint8_t>(instruction.getOperand(scale_operand).getImm());
  }
  return {.kind = source.index ? Kind::table : Kind::indirect,
          .by_form = source.index.has_value(),
          .source = source};
}

} // namespace uprobectl
