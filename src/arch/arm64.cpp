// SPDX-License-Identifier: Apache-2.0
#include "arch/pt_regs.h"
#include "arch/tables.hpp"

#include <llvm/BinaryFormat/ELF.h>

namespace uprobectl {

namespace {

// DWARF for the Arm 64-bit Architecture, table 1; number 32 (there ELR_mode) is used for the pc.
// perf: arch/arm64/include/uapi/asm/perf_regs.h. Encoding 31 is the zero register or sp.
constexpr std::array<RegisterInfo, ARM64_REGISTERS> arm64_registers = {{
    {"x0", 0, 0, 0},     {"x1", 1, 1, 1},     {"x2", 2, 2, 2},     {"x3", 3, 3, 3},
    {"x4", 4, 4, 4},     {"x5", 5, 5, 5},     {"x6", 6, 6, 6},     {"x7", 7, 7, 7},
    {"x8", 8, 8, 8},     {"x9", 9, 9, 9},     {"x10", 10, 10, 10}, {"x11", 11, 11, 11},
    {"x12", 12, 12, 12}, {"x13", 13, 13, 13}, {"x14", 14, 14, 14}, {"x15", 15, 15, 15},
    {"x16", 16, 16, 16}, {"x17", 17, 17, 17}, {"x18", 18, 18, 18}, {"x19", 19, 19, 19},
    {"x20", 20, 20, 20}, {"x21", 21, 21, 21}, {"x22", 22, 22, 22}, {"x23", 23, 23, 23},
    {"x24", 24, 24, 24}, {"x25", 25, 25, 25}, {"x26", 26, 26, 26}, {"x27", 27, 27, 27},
    {"x28", 28, 28, 28}, {"x29", 29, 29, 29}, {"x30", 30, 30, 30}, {"sp", 31, 31},
    {"pc", 32, 32},      {"pstate"},
}};
constexpr std::array arm64_unsaved = {UnsavedRegisters{"v", 64, 32}};
constexpr auto arm64_names = register_names_of(arm64_registers);
static_assert(arm64_names[ARM64_X30] == "x30" && arm64_names[ARM64_PSTATE] == "pstate");

constexpr std::array arm64_aliases = {RegisterAlias{"lr", ARM64_X30}};

// AAPCS64 (6.8.2) uses the first eight, Go all of them.
constexpr std::array<std::uint32_t, 16> first_registers = {0, 1, 2,  3,  4,  5,  6,  7,
                                                           8, 9, 10, 11, 12, 13, 14, 15};
constexpr CallingConvention arm64_native{
    .argument_registers = std::span<const std::uint32_t>(first_registers).first(8),
    .stack_pointer = ARM64_SP,
    .return_register = ARM64_X0,
    .second_return_register = ARM64_X0 + 1};
constexpr CallingConvention arm64_go{.argument_registers = first_registers,
                                     .has_stack_arguments = false,
                                     .stack_pointer = ARM64_SP,
                                     .return_register = ARM64_X0,
                                     .vector_registers = 16};

// AAPCS64, 6.1.1.
constexpr auto arm64_callee_saved = std::span<const std::string_view>(arm64_names).subspan(19, 10);

constexpr auto arm64_signal_registers = [] { // x0 to x30, sp, pc
  std::array<std::uint8_t, 33> order = {};
  for (std::uint8_t i = 0; i < order.size(); ++i) order[i] = i;
  return order;
}();
constexpr UnwindInfo arm64_unwind{
    .stack_pointer = 31,
    .frame_pointer = 29,
    .pc = 32,
    .link_register = 30,
    .call_address_offset = 4,
    .signs_return_addresses = true,
    .address_mask = ~std::uint64_t{0} >> 8,
    .system_call = std::string_view("\x01\x00\x00\xd4", 4), // svc #0
    // mov x8, #139; svc #0, in the vdso (Linux arch/arm64/kernel/vdso/sigreturn.S). Its call frame
    // information describes only the frame record.
    .signal_trampoline = std::string_view("\x68\x11\x80\xd2\x01\x00\x00\xd4", 8),
    // struct siginfo of 128 bytes, then struct ucontext with the registers at 184 (Linux
    // arch/arm64/include/uapi/asm/sigcontext.h, ucontext.h).
    .signal_registers_offset = 128 + 184,
    .signal_registers = arm64_signal_registers,
};

std::optional<OperandRegister> arm64_operand_register(std::string_view name) {
  const auto whole = [](std::string_view register_name) {
    return OperandRegister{std::string(register_name), 64};
  };
  if (name == "sp" || name == "wsp") return OperandRegister{"sp", name == "sp" ? 64U : 32U};
  if (name == "xzr" || name == "wzr") return OperandRegister{"", name == "xzr" ? 64U : 32U};
  // AAPCS64, 6.1.1.
  if (name == "fp") return whole("x29");
  if (name == "lr") return whole("x30");
  if (name == "ip0") return whole("x16");
  if (name == "ip1") return whole("x17");
  if (!name.starts_with('x') && !name.starts_with('w')) return std::nullopt;
  const auto number = parse_register_number(name.substr(1), 31);
  if (!number) return std::nullopt;
  return OperandRegister{std::string(arm64_names[*number]), name.starts_with('x') ? 64U : 32U};
}

// "v0", "d8", "q31", "v0.d[1]", "z3", "p0".
std::optional<std::string_view> unsaved_arm64_register(std::string_view name) {
  constexpr std::string_view letters = "vbhsdqzp";
  const std::string_view whole = name.substr(0, name.find('.'));
  if (whole.empty() || letters.find(whole.front()) == std::string_view::npos ||
      !parse_register_number(whole.substr(1), 32))
    return std::nullopt;
  return "vector register";
}

constexpr std::string_view arm64_abis[] = {"arm64-v8a"};
constexpr std::uint32_t arm64_art_sets[] = {2};

} // namespace

constinit const ArchInfo arm64_info{
    .arch = Arch::arm64,
    .elf_machine = llvm::ELF::EM_AARCH64,
    .names = {.little64 = "arm64", .big64 = "arm64be"},
    .instruction_alignment = 4,
    .instruction_size = 4,
    .has_decoder = true,
    .breakpoint = std::string_view("\xa0\x00\x20\xd4", 4), // brk #5
    .llvm_triple = "aarch64-linux-gnu",
    .llvm_features = "+all", // the file may be for a newer processor than LLVM's default
    .callee_saved = arm64_callee_saved,
    .mapping_symbols = MappingSymbols::plain,
    .jump_slot = llvm::ELF::R_AARCH64_JUMP_SLOT,
    .glob_dat = llvm::ELF::R_AARCH64_GLOB_DAT,
    .thread_offset = llvm::ELF::R_AARCH64_TLS_TPREL64,
    .loader_flags = 0x0a03,
    .multiarch = "aarch64-linux-gnu",
    .android_abis = arm64_abis,
    .android_isa = "arm64",
    .art_instruction_sets = arm64_art_sets,
    .tombstone_architecture = 1,
    .kernel_name = "aarch64",
    .registers = arm64_registers,
    .register_names = arm64_names,
    .aliases = arm64_aliases,
    .pc = ARM64_PC,
    .stack_pointer = ARM64_SP,
    .thread_pointer_after_thread = true,
    .mapped_address_bits = 48, // Linux Documentation/arch/arm64/memory.rst
    .native = &arm64_native,
    .go = &arm64_go,
    .unwind = &arm64_unwind,
    .operand_register = arm64_operand_register,
    .unsaved_register = unsaved_arm64_register,
    .unsaved = arm64_unsaved,
};

} // namespace uprobectl
