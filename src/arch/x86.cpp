// SPDX-License-Identifier: Apache-2.0
// x86-64, and i386 as the 32-bit code of x86-64 kernels.
#include "arch/pt_regs.h"
#include "arch/tables.hpp"

#include <algorithm>
#include <llvm/BinaryFormat/ELF.h>

namespace uprobectl {

namespace {

// DWARF: System V AMD64 psABI, figure 3.36. perf: arch/x86/include/uapi/asm/perf_regs.h.
constexpr std::array<RegisterInfo, X86_64_REGISTERS> x86_64_registers = {{
    {"r15", 15, 23, 15},
    {"r14", 14, 22, 14},
    {"r13", 13, 21, 13},
    {"r12", 12, 20, 12},
    {"rbp", 6, 6, 5},
    {"rbx", 3, 1, 3},
    {"r11", 11, 19, 11},
    {"r10", 10, 18, 10},
    {"r9", 9, 17, 9},
    {"r8", 8, 16, 8},
    {"rax", 0, 0, 0},
    {"rcx", 2, 2, 1},
    {"rdx", 1, 3, 2},
    {"rsi", 4, 4, 6},
    {"rdi", 5, 5, 7},
    {"orig_rax"},
    {"rip", 16, 8},
    {"cs", no_register, 10},
    {"rflags", no_register, 9},
    {"rsp", 7, 7, 4},
    {"ss", no_register, 11},
}};
constexpr std::array x86_64_unsaved = {UnsavedRegisters{"xmm", 17, 16},
                                       UnsavedRegisters{"st", 33, 8}};
constexpr auto x86_64_names = register_names_of(x86_64_registers);
static_assert(x86_64_names[X86_64_RDI] == "rdi" && x86_64_names[X86_64_RFLAGS] == "rflags" &&
              x86_64_names[X86_64_SS] == "ss");

constexpr std::array x86_64_aliases = {
    RegisterAlias{"ax", X86_64_RAX},      RegisterAlias{"eax", X86_64_RAX},
    RegisterAlias{"bx", X86_64_RBX},      RegisterAlias{"ebx", X86_64_RBX},
    RegisterAlias{"cx", X86_64_RCX},      RegisterAlias{"ecx", X86_64_RCX},
    RegisterAlias{"dx", X86_64_RDX},      RegisterAlias{"edx", X86_64_RDX},
    RegisterAlias{"si", X86_64_RSI},      RegisterAlias{"esi", X86_64_RSI},
    RegisterAlias{"di", X86_64_RDI},      RegisterAlias{"edi", X86_64_RDI},
    RegisterAlias{"bp", X86_64_RBP},      RegisterAlias{"ebp", X86_64_RBP},
    RegisterAlias{"sp", X86_64_RSP},      RegisterAlias{"esp", X86_64_RSP},
    RegisterAlias{"ip", X86_64_RIP},      RegisterAlias{"eip", X86_64_RIP},
    RegisterAlias{"flags", X86_64_RFLAGS}};

// System V AMD64 psABI, 3.2.3.
constexpr std::array<std::uint32_t, 6> x86_64_arguments = {X86_64_RDI, X86_64_RSI, X86_64_RDX,
                                                           X86_64_RCX, X86_64_R8,  X86_64_R9};
constexpr std::array<std::uint32_t, 9> x86_64_go_arguments = {X86_64_RAX, X86_64_RBX, X86_64_RCX,
                                                              X86_64_RDI, X86_64_RSI, X86_64_R8,
                                                              X86_64_R9,  X86_64_R10, X86_64_R11};

constexpr CallingConvention x86_64_native{.argument_registers = x86_64_arguments,
                                          .stack_arguments_offset = 8,
                                          .stack_pointer = X86_64_RSP,
                                          .return_register = X86_64_RAX,
                                          .second_return_register = X86_64_RDX};
// Stack arguments are not supported: they share the area with spilled register arguments.
constexpr CallingConvention x86_64_go{.argument_registers = x86_64_go_arguments,
                                      .has_stack_arguments = false,
                                      .stack_arguments_offset = 8,
                                      .stack_pointer = X86_64_RSP,
                                      .return_register = X86_64_RAX,
                                      .vector_registers = 15}; // X15 is zero
// System V i386 psABI, 2.2.3: all arguments are on the stack.
constexpr CallingConvention i386_native{.argument_registers = {},
                                        .stack_arguments_offset = 4,
                                        .slot = 4,
                                        .pointer_size = 4,
                                        .stack_pointer = X86_64_RSP,
                                        .return_register = X86_64_RAX};

constexpr std::string_view x86_64_callee_saved[] = {"rbx", "rbp", "r12", "r13", "r14", "r15"};
constexpr std::string_view i386_callee_saved[] = {"ebx", "ebp", "esi", "edi"};

// The return of a signal handler pops the address of the trampoline. struct ucontext follows, with
// the registers at offset 40 (Linux arch/x86/include/uapi/asm/sigcontext.h).
constexpr std::array<std::uint8_t, 17> x86_64_signal_registers = {8, 9, 10, 11, 12, 13, 14, 15, 5,
                                                                  4, 6, 3,  1,  0,  2,  7,  16};
constexpr UnwindInfo x86_64_unwind{
    .stack_pointer = 7,
    .frame_pointer = 6,
    .pc = 16,
    .call_address_offset = 1,
    .frame_record_at_top = true,
    .system_call = std::string_view("\x0f\x05", 2),
    // mov $15, %rax; syscall, as in glibc and bionic.
    .signal_trampoline = std::string_view("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9),
    .signal_registers_offset = 40,
    .signal_registers = x86_64_signal_registers,
};

// The names of a register and its sub-registers (Intel SDM volume 1, 3.4.1).
struct SubregisterNames {
  std::string_view bits64;
  std::string_view bits32;
  std::string_view bits16;
  std::string_view low8;
  std::string_view high8; // bits 8 to 15
};
constexpr std::array<SubregisterNames, 9> subregister_names = {{
    {"rax", "eax", "ax", "al", "ah"},
    {"rbx", "ebx", "bx", "bl", "bh"},
    {"rcx", "ecx", "cx", "cl", "ch"},
    {"rdx", "edx", "dx", "dl", "dh"},
    {"rsi", "esi", "si", "sil", ""},
    {"rdi", "edi", "di", "dil", ""},
    {"rbp", "ebp", "bp", "bpl", ""},
    {"rsp", "esp", "sp", "spl", ""},
    {"rip", "eip", "", "", ""},
}};

// Parses r8 to r15, with the suffix "d", "w" or "b" for their low bits.
std::optional<OperandRegister> numbered_register(std::string_view name) {
  if (!name.starts_with('r')) return std::nullopt;
  const std::size_t digits = std::min(name.find_first_not_of("0123456789", 1), name.size());
  const auto number = parse_register_number(name.substr(1, digits - 1), 16);
  if (!number || *number < 8) return std::nullopt;
  OperandRegister found{.whole = std::string(name.substr(0, digits))};
  const std::string_view suffix = name.substr(digits);
  if (suffix.empty()) found.bits = 64;
  if (suffix == "d") found.bits = 32;
  if (suffix == "w") found.bits = 16;
  if (suffix == "b" || suffix == "l") found.bits = 8; // Intel writes "r8l"
  return found.bits != 0 ? std::optional(std::move(found)) : std::nullopt;
}

// Parses a general-purpose register or ip. For i386, rejects registers of 64-bit code.
std::optional<OperandRegister> x86_register(std::string_view name, bool is_i386) {
  if (name.size() < 2) return std::nullopt;
  for (const SubregisterNames& parts : subregister_names) {
    // All names of a register contain this letter: "rax", "eax", "ax", "al", "ah".
    if (name.find(parts.bits32[1]) == std::string_view::npos) continue;
    const auto part = [&](std::uint32_t bits, std::uint32_t shift) {
      return OperandRegister{std::string(is_i386 ? parts.bits32 : parts.bits64), bits, shift};
    };
    if (name == parts.bits64 && !is_i386) return part(64, 0);
    if (name == parts.bits32) return part(32, 0);
    if (name == parts.bits16) return part(16, 0);
    // "sil", "dil", "bpl" and "spl" need a REX prefix, which i386 does not have.
    if (name == parts.low8 && !(is_i386 && parts.high8.empty())) return part(8, 0);
    if (name == parts.high8) return part(8, 8);
  }
  return is_i386 ? std::nullopt : numbered_register(name);
}

std::optional<OperandRegister> x86_64_operand_register(std::string_view name) {
  return x86_register(name, false);
}
std::optional<OperandRegister> i386_operand_register(std::string_view name) {
  return x86_register(name, true);
}

std::optional<std::string_view> unsaved_x86_register(std::string_view name) {
  for (const std::string_view vector : {"xmm", "ymm", "zmm"})
    if (name.starts_with(vector) && parse_register_number(name.substr(3), 32))
      return "vector register";
  if (name == "st" || (name.starts_with("st(") && name.ends_with(')') && name.size() == 5 &&
                       parse_register_number(name.substr(3, 1), 8)))
    return "x87 register";
  if (name.starts_with("mm") && parse_register_number(name.substr(2), 8)) return "MMX register";
  if (name.starts_with('k') && parse_register_number(name.substr(1), 8)) return "mask register";
  return std::nullopt;
}

constexpr std::string_view x86_64_abis[] = {"x86_64"};
constexpr std::uint32_t x86_64_art_sets[] = {6};
constexpr std::string_view i386_abis[] = {"x86"};
constexpr std::uint32_t i386_art_sets[] = {5};

} // namespace

constinit const ArchInfo x86_64_info{
    .arch = Arch::x86_64,
    .elf_machine = llvm::ELF::EM_X86_64,
    .names = {.little64 = "x86-64", .little32 = "x32", .big32 = "x32"},
    .has_decoder = true,
    .breakpoint = "\xcc",
    .llvm_triple = "x86_64-linux-gnu",
    .callee_saved = x86_64_callee_saved,
    .jump_slot = llvm::ELF::R_X86_64_JUMP_SLOT,
    .glob_dat = llvm::ELF::R_X86_64_GLOB_DAT,
    .thread_offset = llvm::ELF::R_X86_64_TPOFF64,
    .loader_flags = 0x0303,
    .multiarch = "x86_64-linux-gnu",
    .android_abis = x86_64_abis,
    .android_isa = "x86_64",
    .art_instruction_sets = x86_64_art_sets,
    .tombstone_architecture = 3,
    .kernel_name = "x86_64",
    .registers = x86_64_registers,
    .register_names = x86_64_names,
    .aliases = x86_64_aliases,
    .pc = X86_64_RIP,
    .stack_pointer = X86_64_RSP,
    .has_short_kernel_names = true,
    .uprobe_system_call = 336,
    .native = &x86_64_native,
    .go = &x86_64_go,
    .compat = &i386_native,
    .unwind = &x86_64_unwind,
    .operand_register = x86_64_operand_register,
    .unsaved_register = unsaved_x86_register,
    .unsaved = x86_64_unsaved,
};

constinit const ArchInfo i386_info{
    .arch = Arch::i386,
    .elf_machine = llvm::ELF::EM_386,
    .names = {.little64 = "i386"},
    .has_decoder = true,
    .breakpoint = "\xcc",
    .llvm_triple = "i386-linux-gnu",
    .callee_saved = i386_callee_saved,
    .jump_slot = llvm::ELF::R_386_JUMP_SLOT,
    .glob_dat = llvm::ELF::R_386_GLOB_DAT,
    .multiarch = "i386-linux-gnu",
    .android_abis = i386_abis,
    .android_isa = "x86",
    .art_instruction_sets = i386_art_sets,
    .tombstone_architecture = 2,
    .has_short_kernel_names = true,
    .operand_register = i386_operand_register,
    .unsaved_register = unsaved_x86_register,
};

} // namespace uprobectl
