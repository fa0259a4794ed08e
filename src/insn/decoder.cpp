// SPDX-License-Identifier: Apache-2.0
#include "insn/decoder.hpp"
#include "insn/packed_tables.hpp"

#include <algorithm>
#include <array>

#include <llvm-c/Target.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>

// LLVM's static constructors, which src/cli/startup.ld moves here so that they run at the first
// use. Null in programs that are linked without it, where they run at startup.
extern "C" {
using StaticConstructor = void (*)();
[[gnu::weak]] extern const StaticConstructor uprobectl_cold_init_begin[];
[[gnu::weak]] extern const StaticConstructor uprobectl_cold_init_end[];
}

namespace uprobectl::insn {

namespace {

// Registers the targets once per process: registering one twice makes LLVM's linked list a cycle.
const llvm::Target* find_target(const char* triple) {
  static const bool registered = [] {
    const std::ptrdiff_t constructors = uprobectl_cold_init_end - uprobectl_cold_init_begin;
    for (std::ptrdiff_t i = 0; i < constructors; ++i) uprobectl_cold_init_begin[i]();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86Disassembler();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64Disassembler();
    return true;
  }();
  std::string error;
  return registered ? llvm::TargetRegistry::lookupTarget(triple, error) : nullptr;
}

// Prefixes come before everything else (Intel SDM volume 2, 2.1.1 and 2.2.1).
bool is_x86_prefix(Arch arch, std::byte byte) {
  switch (std::to_integer<std::uint8_t>(byte)) {
  case 0x26: // es
  case 0x2e: // cs
  case 0x36: // ss
  case 0x3e: // ds
  case 0x64: // fs
  case 0x65: // gs
  case 0x66: // operand size
  case 0x67: // address size
  case 0xf0: // lock
  case 0xf2: // repne
  case 0xf3: // rep
    return arch == Arch::x86_64 || arch == Arch::i386;
  default:
    return arch == Arch::x86_64 && (byte & std::byte{0xf0}) == std::byte{0x40}; // rex
  }
}

// Whether LLVM may look up the opcode in the tables that are packed (src/cli/startup.ld): those of
// three bytes, 3DNow! and XOP, and the maps from 2 on of VEX and EVEX. May say so of others, too.
bool needs_packed_tables(Arch arch, Bytes bytes) {
  const auto opcode =
      std::ranges::find_if_not(bytes, [&](std::byte byte) { return is_x86_prefix(arch, byte); });
  if (bytes.end() - opcode < 2) return false;
  const auto second = std::to_integer<std::uint8_t>(opcode[1]);
  switch (std::to_integer<std::uint8_t>(opcode[0])) {
  case 0x0f:
    return second == 0x0f || second == 0x38 || second == 0x3a;
  case 0x62: // EVEX, or bound
    return (second & 0x07) > 1;
  case 0x8f: // XOP, or pop
  case 0xc4: // VEX of three bytes, or les
    return (second & 0x1f) > 1;
  default:
    return false;
  }
}

} // namespace

Decoder::Decoder(const ArchInfo& arch, const llvm::Target& target)
    : arch_(arch.arch), registers_(target.createMCRegInfo(arch.llvm_triple)),
      assembler_(target.createMCAsmInfo(*registers_, arch.llvm_triple, llvm::MCTargetOptions())),
      subtarget_(target.createMCSubtargetInfo(arch.llvm_triple, "", arch.llvm_features)),
      instructions_(target.createMCInstrInfo()),
      context_(std::make_unique<llvm::MCContext>(llvm::Triple(arch.llvm_triple), assembler_.get(),
                                                 registers_.get(), subtarget_.get())),
      disassembler_(target.createMCDisassembler(*subtarget_, *context_)),
      analysis_(target.createMCInstrAnalysis(instructions_.get())),
      printer_(target.createMCInstPrinter(llvm::Triple(arch.llvm_triple),
                                          assembler_->getAssemblerDialect(), *assembler_,
                                          *instructions_, *registers_)) {
  printer_->setPrintImmHex(true);
  printer_->setPrintBranchImmAsAddress(true);
  printer_->setMCInstrAnalysis(analysis_.get());
}

Decoder* Decoder::for_arch(Arch arch) {
  thread_local std::array<std::unique_ptr<Decoder>, arch_count> decoders;
  std::unique_ptr<Decoder>& decoder = decoders[static_cast<std::size_t>(arch)];
  const ArchInfo& info = arch_info(arch);
  if (!decoder && info.llvm_triple != nullptr)
    if (const llvm::Target* const target = find_target(info.llvm_triple))
      decoder.reset(new Decoder(info, *target));
  return decoder.get();
}

std::optional<Decoder::Decoded> Decoder::decode(Bytes bytes, VirtualAddress address) const {
  const Bytes window = bytes.first(std::min(bytes.size(), max_x86_instruction_size));
  const llvm::ArrayRef<std::uint8_t> raw(reinterpret_cast<const std::uint8_t*>(window.data()),
                                         window.size());
  if (arch_ != Arch::arm64 && needs_packed_tables(arch_, window)) fill_packed_tables();
  Decoded decoded;
  std::uint64_t size = 0;
  // SoftFail is an encoding that the manual calls unpredictable; it still has a size and a name.
  if (disassembler_->getInstruction(decoded.instruction, size, raw, address.value, llvm::nulls()) ==
      llvm::MCDisassembler::Fail)
    return std::nullopt;
  if (size == 0 || size > window.size()) return std::nullopt;
  decoded.size = static_cast<std::uint32_t>(size);
  decoded.only_prefix = std::ranges::all_of(
      window.first(size), [&](std::byte byte) { return is_x86_prefix(arch_, byte); });
  return decoded;
}

Decoder::Text Decoder::print(const Decoded& decoded, VirtualAddress address) {
  llvm::SmallString<128> text;
  llvm::SmallString<128> comments;
  llvm::raw_svector_ostream text_stream(text);
  llvm::raw_svector_ostream comment_stream(comments);
  printer_->setCommentStream(comment_stream);
  // LLVM adds a branch's distance to this address. A64 branches are relative to the instruction,
  // x86 ones to the next instruction.
  const std::uint64_t origin = arch_ == Arch::arm64 ? address.value : address.value + decoded.size;
  printer_->printInst(&decoded.instruction, origin, "", *subtarget_, text_stream);
  printer_->setCommentStream(llvm::nulls()); // comment_stream is local
  if (const auto memory = memory_address(decoded, address)) {
    comment_stream << "0x";
    comment_stream.write_hex(memory->value);
  }
  return {text.str().str(), comments.str().str()};
}

std::optional<VirtualAddress> Decoder::branch_target(const Decoded& decoded,
                                                     VirtualAddress address) const {
  std::uint64_t target = 0;
  if (!analysis_->evaluateBranch(decoded.instruction, address.value, decoded.size, target))
    return std::nullopt;
  if (arch_ == Arch::i386) target = static_cast<std::uint32_t>(target); // wraps around
  return VirtualAddress{target};
}

std::optional<VirtualAddress> Decoder::memory_address(const Decoded& decoded,
                                                      VirtualAddress address) const {
  const auto memory = analysis_->evaluateMemoryOperandAddress(decoded.instruction, subtarget_.get(),
                                                              address.value, decoded.size);
  if (!memory) return std::nullopt;
  return VirtualAddress{*memory};
}

} // namespace uprobectl::insn
