// SPDX-License-Identifier: Apache-2.0
#include "insn/forwarding.hpp"

#include "insn/decoder.hpp"

#include <algorithm>
#include <array>

namespace uprobectl::insn {

namespace {

bool uses_stack_pointer(const Decoder& decoder, const Decoder::Decoded& decoded) {
  if (decoder.name(decoded).starts_with("PUSH")) return true;
  return std::ranges::any_of(decoded.instruction, [&](const llvm::MCOperand& operand) {
    if (!operand.isReg()) return false;
    const std::string_view name = decoder.register_name(operand.getReg());
    return name == "RSP" || name == "ESP" || name == "SP";
  });
}

// Whether the instruction has an effect that LLVM does not describe as a store.
bool has_other_effect(std::string_view name) {
  constexpr std::array<std::string_view, 7> begins = {"SYSCALL", "SYSENTER", "INT", "SVC",
                                                      "REP_",    "XBEGIN",   "LOOP"};
  return std::ranges::any_of(begins,
                             [&](std::string_view begin) { return name.starts_with(begin); });
}

} // namespace

bool only_forwards(Arch arch, Bytes function, VirtualAddress address) {
  const Decoder* const decoder = Decoder::for_arch(arch);
  if (decoder == nullptr) return false;
  for (std::uint64_t at = 0; at < function.size();) {
    const VirtualAddress here{address.value + at};
    const auto decoded = decoder->decode(function.subspan(at), here);
    if (!decoded) return false;
    const llvm::MCInstrDesc& description = decoder->description(*decoded);
    if (description.isCall() || has_other_effect(decoder->name(*decoded))) return false;
    if (description.mayStore() && !uses_stack_pointer(*decoder, *decoded)) return false;
    if (description.isBranch())
      if (const auto target = decoder->branch_target(*decoded, here))
        if (*target >= address && *target <= here) return false; // a loop
    at += decoded->size;
  }
  return true;
}

} // namespace uprobectl::insn
