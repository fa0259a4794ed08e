#include "insn/indirect_jump.hpp"

#include <algorithm>

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
bool is_sum(Arch arch, std::string_view name) {
  if (arch == Arch::arm64) return name.starts_with("ADDXrs") || name.starts_with("ADDXrx");
  const std::string_view add = arch == Arch::i386 ? "ADD32r" : "ADD64r";
  return name.starts_with(add) && (name[add.size()] == 'r' || name[add.size()] == 'm');
}

// LLVM's names of registers are those of ArchInfo in capitals.
bool is_same_register(std::string_view llvm_name, std::string_view name) {
  return std::ranges::equal(llvm_name, name, {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
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
    if (is_sum(arch_, decoder_.name(decoded)))
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

// Whether the function must give the register back as it got it: then it has, before a tail call.
bool IndirectJumps::is_restored(unsigned number) const {
  const std::string_view name = decoder_.register_name(number);
  return std::ranges::any_of(arch_info(arch_).callee_saved,
                             [&](std::string_view saved) { return is_same_register(name, saved); });
}

Jump IndirectJumps::classify(const Decoder::Decoded& decoded, VirtualAddress address,
                             bool notrack) const {
  const llvm::MCInst& instruction = decoded.instruction;
  Jump jump{.kind = Kind::indirect};
  if (instruction.getNumOperands() >= memory_operands && arch_ != Arch::arm64) {
    jump = through_memory(decoded, address);
  } else if (instruction.getNumOperands() > 0 && instruction.getOperand(0).isReg()) {
    const unsigned number = instruction.getOperand(0).getReg();
    jump.by_form = sum_ != 0 && number == sum_ && !is_restored(number);
    if (jump.by_form || is_restored(number)) jump.kind = Kind::table;
    // Those that authenticate go to less than the register holds.
    const bool plain = arch_ != Arch::arm64 || decoder_.name(decoded) == "BR";
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
    if (arch_ == Arch::i386) slot = static_cast<std::uint32_t>(slot);
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
