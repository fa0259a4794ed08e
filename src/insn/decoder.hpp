// SPDX-License-Identifier: Apache-2.0
// Wraps LLVM's disassembler for one architecture. Creation registers LLVM's targets and builds
// tables (under 0.1 ms), so a decoder is created at its first use, one per thread: LLVM's context
// and printer are not thread-safe.
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

namespace uprobectl::insn {

// The maximum instruction size (Intel SDM volume 2, 2.3.11).
inline constexpr std::size_t max_x86_instruction_size = 15;

// Decodes and prints instructions of one architecture.
class Decoder {
public:
  // Returns this thread's decoder; null if the architecture has no disassembler.
  static Decoder* for_arch(Arch arch);

  // An instruction as LLVM decodes it. LLVM returns some prefixes, such as `lock`, as an
  // instruction of their own (only_prefix). The processor does not: a breakpoint after one is
  // invalid (`lock int3`).
  struct Decoded {
    llvm::MCInst instruction;
    std::uint32_t size = 0; // bytes, 1 at least
    bool only_prefix = false;
  };
  // Decodes the first instruction of the bytes; returns nullopt if it is invalid.
  std::optional<Decoded> decode(Bytes bytes, VirtualAddress address) const;

  // LLVM's assembly text, with tabs; comments are lines of their own.
  struct Text {
    std::string text;
    std::string comments;
  };
  Text print(const Decoded& decoded, VirtualAddress address);

  // The entry of the instruction in LLVM's tables, and its name there: "RET64", "JMP64r".
  const llvm::MCInstrDesc& description(const Decoded& decoded) const {
    return instructions_->get(decoded.instruction.getOpcode());
  }
  std::string_view name(const Decoded& decoded) const {
    return instructions_->getName(decoded.instruction.getOpcode());
  }
  // Whether control does not go on after the instruction: a return, or a jump that is always taken.
  bool ends_flow(const Decoded& decoded) const {
    const llvm::MCInstrDesc& read = description(decoded);
    return read.isReturn() || (read.isBranch() && read.isBarrier());
  }
  std::string_view register_name(unsigned number) const { return registers_->getName(number); }

  // The register number in encodings: 7 for rdi and edi, 29 for x29, 31 for xzr and sp.
  std::uint8_t register_encoding(unsigned number) const {
    return static_cast<std::uint8_t>(registers_->getEncodingValue(number) & 31U);
  }

  // The target of a direct branch or call that is at the address.
  std::optional<VirtualAddress> branch_target(const Decoded& decoded, VirtualAddress address) const;
  // The address of a memory operand that is relative to the instruction.
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

} // namespace uprobectl::insn
