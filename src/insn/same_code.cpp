// SPDX-License-Identifier: Apache-2.0
#include "insn/same_code.hpp"
#include "insn/decoder.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace uprobectl::insn {

namespace {

// Compares instructions in order. Follows the registers that adrp has set to an address of a page.
class CodeComparison {
public:
  explicit CodeComparison(const Decoder& decoder) : decoder_(decoder) {}

  bool are_equal(const Decoder::Decoded& one, const Decoder::Decoded& other) {
    const llvm::MCInst& a = one.instruction;
    const llvm::MCInst& b = other.instruction;
    if (one.size != other.size || a.getOpcode() != b.getOpcode() || a.getFlags() != b.getFlags() ||
        a.getNumOperands() != b.getNumOperands())
      return false;
    for (unsigned i = 0; i < a.getNumOperands(); ++i)
      if (!is_relative(one, i) && !are_equal(a.getOperand(i), b.getOperand(i))) return false;
    track(one);
    return true;
  }

private:
  static bool are_equal(const llvm::MCOperand& a, const llvm::MCOperand& b) {
    if (a.isReg() && b.isReg()) return a.getReg() == b.getReg();
    if (a.isImm() && b.isImm()) return a.getImm() == b.getImm();
    if (a.isSFPImm() && b.isSFPImm()) return a.getSFPImm() == b.getSFPImm();
    if (a.isDFPImm() && b.isDFPImm()) return a.getDFPImm() == b.getDFPImm();
    return false;
  }

  bool sets_page(const Decoder::Decoded& decoded) const { return decoder_.name(decoded) == "ADRP"; }

  // Whether the operand is relative to the instruction, or completes the address of adrp.
  bool is_relative(const Decoder::Decoded& decoded, unsigned index) const {
    const llvm::MCInst& instruction = decoded.instruction;
    if (!instruction.getOperand(index).isImm()) return false;
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    const std::string_view name = decoder_.name(decoded);
    if (index < description.getNumOperands() &&
        description.operands()[index].OperandType == llvm::MCOI::OPERAND_PCREL)
      return true;
    if (name == "ADR" || name == "ADRP") return true;
    const auto register_at = [&](unsigned operand) -> unsigned {
      const llvm::MCOperand& found = instruction.getOperand(operand);
      return found.isReg() ? found.getReg() : 0;
    };
    // x86: base, scale, index and displacement follow each other (X86BaseInfo.h).
    constexpr unsigned from_base = 3;
    if (index >= from_base && register_at(index - from_base) != 0 &&
        (decoder_.register_name(register_at(index - from_base)) == "RIP" ||
         decoder_.register_name(register_at(index - from_base)) == "EIP"))
      return true;
    // arm64: "add x0, x0, #lo12" and "ldr x1, [x0, #lo12]" with a scaled, unsigned offset.
    const bool has_offset = name == "ADDXri" || name.ends_with("ui");
    return has_offset && index > 0 && pages_.contains(whole_register(register_at(index - 1)));
  }

  void track(const Decoder::Decoded& decoded) {
    const llvm::MCInstrDesc& description = decoder_.description(decoded);
    if (description.isCall()) pages_.clear(); // the callee may change them
    for (unsigned i = 0; i < description.getNumDefs(); ++i) {
      const llvm::MCOperand& defined = decoded.instruction.getOperand(i);
      if (!defined.isReg()) continue;
      pages_.erase(whole_register(defined.getReg()));
      if (sets_page(decoded)) pages_.insert(whole_register(defined.getReg()));
    }
  }

  // arm64: "X8" of "W8", its lower half.
  std::string whole_register(unsigned number) const {
    std::string name(decoder_.register_name(number));
    if (name.starts_with('W')) name.front() = 'X';
    return name == "X29" ? "FP" : name == "X30" ? "LR" : name;
  }

  const Decoder& decoder_;
  std::set<std::string> pages_; // registers with the page of an adrp
};

// Returns the bytes that an instruction may have, with zeros past the end of the code.
std::array<std::byte, max_instruction_size> window_at(Bytes code, std::size_t at) {
  std::array<std::byte, max_instruction_size> window{};
  std::ranges::copy(code.subspan(at, std::min(window.size(), code.size() - at)), window.begin());
  return window;
}

} // namespace

bool is_same_code(Arch arch, Bytes one, Bytes other) {
  if (one.size() != other.size()) return false;
  const Decoder* const decoder = Decoder::for_arch(arch);
  std::size_t at = 0;
  if (decoder != nullptr) {
    CodeComparison comparison(*decoder);
    while (at < one.size()) {
      const auto a = decoder->decode(window_at(one, at), {});
      const auto b = decoder->decode(window_at(other, at), {});
      if (!a || !b) break;
      if (!comparison.are_equal(*a, *b)) return false;
      at += a->size;
    }
  }
  return at >= one.size() || std::ranges::equal(one.subspan(at), other.subspan(at));
}

} // namespace uprobectl::insn
