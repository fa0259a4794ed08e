// SPDX-License-Identifier: Apache-2.0
// LLVM's disassembler for one machine. Making one registers LLVM's targets and builds their tables
// (under 0.1 ms), so it is made when it is first asked for, once a thread: neither its context nor
// its printer may be shared.
#pragma once

#include "uprobectl/insn.hpp"

#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>

namespace llvm {
class Target;
}

namespace uprobectl {

// The longest instruction the processor accepts (Intel SDM volume 2, 2.3.11).
inline constexpr std::size_t max_x86_instruction_size = 15;

class Decoder {
public:
  // Null for an architecture that LLVM does not decode here.
  static Decoder* of(Arch arch);

  // What LLVM takes for the first instruction of the bytes, or nothing where they are none. LLVM
  // presents most prefixes together with what they belong to, but some, `lock` above all, as an
  // instruction of their own. To the processor they are one, and a breakpoint between the two is an
  // illegal instruction (`lock int3`).
  struct Decoded {
    llvm::MCInst instruction;
    std::uint32_t size = 0; // bytes, 1 at least
    bool only_prefix = false;
  };
  std::optional<Decoded> decode(Bytes bytes, VirtualAddress address) const;

  // The instruction as LLVM writes it: tabs, and comments on lines of their own.
  struct Written {
    std::string text;
    std::string comments;
  };
  Written write(const Decoded& decoded, VirtualAddress address);

  // What LLVM's tables say of the instruction, and what they call it: "RET64", "JMP64r".
  const llvm::MCInstrDesc& description(const Decoded& decoded) const {
    return instructions_->get(decoded.instruction.getOpcode());
  }
  std::string_view name(const Decoded& decoded) const {
    return instructions_->getName(decoded.instruction.getOpcode());
  }
  std::string_view register_name(unsigned number) const { return registers_->getName(number); }

  // As instructions encode the register: 7 for rdi and edi, 29 for x29; 31 for xzr and sp.
  std::uint8_t register_code(unsigned number) const {
    return static_cast<std::uint8_t>(registers_->getEncodingValue(number) & 31U);
  }

  // Where a direct branch or call goes that lies at the address.
  std::optional<VirtualAddress> branch_target(const Decoded& decoded, VirtualAddress address) const;
  // The address of a memory operand that is given relative to the instruction.
  std::optional<VirtualAddress> memory_address(const Decoded& decoded,
                                               VirtualAddress address) const;

  std::string_view comment_sign() const { return assembler_->getCommentString(); }

private:
  Decoder(const ArchInfo& arch, const llvm::Target& target);

  Arch arch_;
  std::unique_ptr<llvm::MCRegisterInfo> registers_;
  std::unique_ptr<llvm::MCAsmInfo> assembler_;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget_;
  std::unique_ptr<llvm::MCInstrInfo> instructions_;
  std::unique_ptr<llvm::MCContext> context_;
  std::unique_ptr<llvm::MCDisassembler> disassembler_;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis_;
  std::unique_ptr<llvm::MCInstPrinter> printer_;
};

} // namespace uprobectl
