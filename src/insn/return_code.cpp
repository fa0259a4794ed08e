// SPDX-License-Identifier: Apache-2.0
// Recognizes code that does nothing but return: return thunks, and ends of functions that compilers
// share between functions.
#include "uprobectl/insn/return_code.hpp"

#include "insn/decoder.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace uprobectl::insn {

// call 1f; 0: pause; lfence; jmp 0b; 1: lea 8(%rsp), %rsp; ret. The processor predicts a return to
// the loop; the address of the loop is dropped (gcc/config/i386/i386.cc, output_indirect_thunk).
bool is_return_thunk(Arch arch, Bytes code) {
  using namespace std::string_view_literals;
  if (arch != Arch::x86_64 && arch != Arch::i386) return false;
  constexpr std::uint32_t longest_loop = 32; // bytes
  constexpr std::size_t call_size = 5;
  std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
  std::uint32_t distance = 0;
  if (!text.starts_with('\xe8') || text.size() < call_size) return false;
  std::memcpy(&distance, text.data() + 1, sizeof(distance));
  if (distance > longest_loop || distance > text.size() - call_size) return false;
  text.remove_prefix(call_size + distance);
  return text.starts_with(arch == Arch::i386 ? "\x8d\x64\x24\x04\xc3"sv
                                             : "\x48\x8d\x64\x24\x08\xc3"sv);
}

namespace {

class ReturnCodeReader {
public:
  ReturnCodeReader(const Decoder& decoder, Arch arch, const ReadCode& read)
      : decoder_(decoder), arch_(arch), read_(read) {}

  std::optional<ReturnCode> read(VirtualAddress at) {
    constexpr int max_instructions = 32;
    for (int i = 0; i < max_instructions; ++i) {
      const Bytes code = read_(at);
      if (is_return_thunk(arch_, code)) return found_;
      const auto decoded = decoder_.decode(code, at);
      if (!decoded) return std::nullopt;
      const llvm::MCInstrDesc& description = decoder_.description(*decoded);
      if (decoder_.name(*decoded).starts_with("RET"))
        return returns_to_caller(*decoded) ? std::optional(found_) : std::nullopt;
      if (description.isUnconditionalBranch() && !description.isIndirectBranch()) {
        const auto target = decoder_.branch_target(*decoded, at);
        if (!target) return std::nullopt;
        at = *target;
        continue;
      }
      if (!decoded->only_prefix && !passes(*decoded)) return std::nullopt;
      at.value += decoded->size;
    }
    return std::nullopt;
  }

private:
  // arm64 may return to an address in any register.
  bool returns_to_caller(const Decoder::Decoded& decoded) const {
    const llvm::MCInst& instruction = decoded.instruction;
    constexpr std::uint8_t link_register = 30;
    return arch_ != Arch::arm64 || instruction.getNumOperands() == 0 ||
           (instruction.getOperand(0).isReg() &&
            decoder_.register_encoding(instruction.getOperand(0).getReg()) == link_register);
  }

  // Takes the effect of an instruction. Returns false if code that only returns does not have it.
  bool passes(const Decoder::Decoded& decoded) {
    const std::string_view name = decoder_.name(decoded);
    const auto begins_with = [&](std::string_view start) { return name.starts_with(start); };
    // These have side effects for LLVM. AUTIASP and AUTIBSP check the return address.
    constexpr std::array<std::string_view, 4> harmless = {"NOOP", "HINT", "ENDBR", "AUTI"};
    if (std::ranges::any_of(harmless, begins_with)) return true;
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    if (description.isCall() || description.isBranch() || description.isTerminator() ||
        description.hasUnmodeledSideEffects())
      return false;
    const bool uses_stack = refers_to_stack(decoded);
    // A pushed word may be the address that is returned to.
    if (description.mayStore() && uses_stack) return false;
    found_.stores = found_.stores || description.mayStore();

    bool moves_stack = false;
    const auto may_set = [&](unsigned number) {
      const std::string_view set = decoder_.register_name(number);
      if (is_stack_pointer(set)) {
        moves_stack = true;
        return true;
      }
      if (set == "LR" || set == "W30") return uses_stack && description.mayLoad();
      return !may_be_result(set);
    };
    const llvm::MCInst& instruction = decoded.instruction;
    for (unsigned i = 0; i < description.getNumDefs() && i < instruction.getNumOperands(); ++i)
      if (instruction.getOperand(i).isReg() && !may_set(instruction.getOperand(i).getReg()))
        return false;
    if (!std::ranges::all_of(description.implicit_defs(), may_set)) return false;
    return !moves_stack || add_raise(decoded);
  }

  bool is_stack_pointer(std::string_view name) const {
    return name == "SP" || name == "WSP" || name == "RSP" || name == "ESP";
  }

  bool refers_to_stack(const Decoder::Decoded& decoded) const {
    const auto is_stack = [&](unsigned number) {
      return is_stack_pointer(decoder_.register_name(number));
    };
    const llvm::MCInst& instruction = decoded.instruction;
    return std::ranges::any_of(instruction,
                               [&](const llvm::MCOperand& operand) {
                                 return operand.isReg() && is_stack(operand.getReg());
                               }) ||
           std::ranges::any_of(decoder_.description(decoded).implicit_uses(), is_stack);
  }

  // Whether a function can have its result, or a part of it, in the register, by any convention
  // but Go's and __regcall (System V AMD64 3.2.3, AAPCS64 6.9; Windows saves xmm6 to xmm15).
  bool may_be_result(std::string_view name) const {
    if (arch_ == Arch::arm64) {
      if (name.empty() || !std::string_view("WXBHSDQZ").contains(name[0])) return false;
      return name.size() > 1 && name[1] >= '0' && name[1] <= '7' &&
             (name.size() == 2 || name[2] == '_');
    }
    constexpr std::array<std::string_view, 18> general = {"AL", "AH",  "AX",  "EAX", "RAX", "CL",
                                                          "CH", "CX",  "ECX", "RCX", "DL",  "DH",
                                                          "DX", "EDX", "RDX", "R8B", "R8D", "R8"};
    constexpr std::array<std::string_view, 10> saved = {
        "XMM6", "XMM7", "XMM8", "XMM9", "XMM10", "XMM11", "XMM12", "XMM13", "XMM14", "XMM15"};
    if (arch_ == Arch::x86_64 && std::ranges::find(saved, name) != saved.end()) return false;
    return std::ranges::find(general, name) != general.end() || name.contains("MM") ||
           name.starts_with("ST") || name.starts_with("FP");
  }

  // Adds by how much the instruction raises the stack pointer; false if that is not a constant.
  bool add_raise(const Decoder::Decoded& decoded) {
    if (arch_ == Arch::x86_64 && decoder_.name(decoded) == "MOV64rr") {
      found_.stack_from = decoder_.register_encoding(decoded.instruction.getOperand(1).getReg());
      found_.raises_stack = 0;
      return true;
    }
    const auto raise = arch_ == Arch::arm64 ? arm64_raise(decoded) : x86_raise(decoded);
    constexpr std::int64_t max_raise = 1 << 20; // bytes
    if (!raise || *raise < 0 || *raise > max_raise) return false;
    found_.raises_stack += static_cast<std::uint64_t>(*raise);
    return true;
  }

  std::optional<std::int64_t> arm64_raise(const Decoder::Decoded& decoded) const {
    const std::string_view name = decoder_.name(decoded);
    const llvm::MCInst& instruction = decoded.instruction;
    const unsigned count = instruction.getNumOperands();
    if (name == "ADDXri" && count == 4 && is_stack_operand(decoded, 1) &&
        instruction.getOperand(2).isImm() && instruction.getOperand(3).isImm())
      return instruction.getOperand(2).getImm() << (instruction.getOperand(3).getImm() & 63U);
    // ldp x29, x30, [sp], #32: the stack pointer, the registers, the base, the distance.
    if (!name.ends_with("post") || count < 4 || !is_stack_operand(decoded, count - 2) ||
        !instruction.getOperand(count - 1).isImm())
      return std::nullopt;
    const std::int64_t distance = instruction.getOperand(count - 1).getImm();
    if (name.starts_with("LDR")) return distance;
    if (!name.starts_with("LDP")) return std::nullopt;
    switch (name[3]) {
    case 'X':
    case 'D':
      return distance * 8;
    case 'Q':
      return distance * 16;
    default:
      return std::nullopt;
    }
  }

  std::optional<std::int64_t> x86_raise(const Decoder::Decoded& decoded) const {
    const std::string_view name = decoder_.name(decoded);
    const llvm::MCInst& instruction = decoded.instruction;
    const unsigned count = instruction.getNumOperands();
    const bool is_wide = arch_ == Arch::x86_64;
    if (name == (is_wide ? "POP64r" : "POP32r")) return is_wide ? 8 : 4;
    if (name.starts_with(is_wide ? "ADD64ri" : "ADD32ri") && count == 3 &&
        is_stack_operand(decoded, 1) && instruction.getOperand(2).isImm())
      return instruction.getOperand(2).getImm();
    // The register, then base, scale, index, displacement and segment.
    if (name == (is_wide ? "LEA64r" : "LEA32r") && count == 6 && is_stack_operand(decoded, 1) &&
        instruction.getOperand(3).getReg() == 0 && instruction.getOperand(4).isImm())
      return instruction.getOperand(4).getImm();
    return std::nullopt;
  }

  bool is_stack_operand(const Decoder::Decoded& decoded, unsigned operand) const {
    const llvm::MCOperand& found = decoded.instruction.getOperand(operand);
    return found.isReg() && is_stack_pointer(decoder_.register_name(found.getReg()));
  }

  const Decoder& decoder_;
  Arch arch_;
  const ReadCode& read_;
  ReturnCode found_;
};

} // namespace

std::optional<ReturnCode> find_return_code(Arch arch, VirtualAddress address,
                                           const ReadCode& read) {
  const Decoder* const decoder = Decoder::for_arch(arch);
  if (decoder == nullptr) return std::nullopt;
  return ReturnCodeReader(*decoder, arch, read).read(address);
}

} // namespace uprobectl::insn
