// SPDX-License-Identifier: Apache-2.0
// Processor architectures: one ArchInfo for each, with everything about it that is data. The tables
// are in src/arch, one source for each supported architecture and others.cpp for those whose files
// are only resolved. Code that differs (instruction decoding, PLT stubs, operands of static probes)
// stands in the module that needs it and switches on Arch.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// As e_machine tells them apart: word size and byte order of a file are elf::Machine's.
enum class Arch : std::uint8_t {
  unknown,
  x86_64,
  i386,
  arm64,
  arm,
  thumb, // the second instruction set of arm; no file is of this architecture, only code
  riscv,
  s390,
  ppc64,
  ppc,
  mips,
  loongarch,
  sparc64,
  hppa,
  m68k,
  alpha,
};
inline constexpr std::size_t arch_count = static_cast<std::size_t>(Arch::alpha) + 1;

// Probes are attached, and stacks captured, on these.
#if defined(__x86_64__)
inline constexpr Arch host_arch = Arch::x86_64;
#elif defined(__aarch64__)
inline constexpr Arch host_arch = Arch::arm64;
#else
#error "not a supported host architecture: describe it in src/arch and docs/design/architectures.md"
#endif

// No number of this kind.
inline constexpr std::uint8_t no_register = 255;

// A register that the kernel saves for a probe, in every numbering that is used here.
struct RegisterInfo {
  std::string_view name;
  std::uint8_t dwarf = no_register;    // only of those that unwinding restores
  std::uint8_t perf = no_register;     // its bit in perf_event_attr::sample_regs_user
  std::uint8_t encoding = no_register; // in general-purpose operands of instructions
};

// Another name of a register, by its index in ArchInfo::registers.
struct RegisterAlias {
  std::string_view name;
  std::uint8_t index = 0;
};

// A register, or a part of one, as an assembler operand names it.
struct OperandRegister {
  std::string whole;       // the register that it is a part of; empty: reads as zero
  std::uint32_t bits = 0;  // of the part
  std::uint32_t shift = 0; // of the part, from the lowest bit: 8 for "ah"
};

// How calls of some code pass integers and pointers. Registers by their index in
// ArchInfo::registers of the architecture whose kernel runs the code.
struct CallingConvention {
  std::span<const std::uint32_t> argument_registers; // the first ones, in order
  bool has_stack_arguments = true;                   // the others lie on the stack ...
  std::int64_t first_on_stack = 0;                   // so far above the stack pointer, at entry
  std::uint32_t slot = 8;                            // bytes from one to the next
  std::uint32_t pointer_size = 8;
  std::uint32_t stack_pointer = 0;
  std::uint32_t return_register = 0;
};

// What unwinding needs. Registers by their DWARF number.
struct UnwindInfo {
  std::uint8_t stack_pointer = 0;
  std::uint8_t frame_pointer = 0;
  std::uint8_t pc = 0; // the return address column, where the ABI has one
  // Holds the return address at a function's entry; no_register where a call pushes it.
  std::uint8_t link_register = no_register;
  // Bytes between a return address and an address inside the call before it.
  std::uint8_t back_to_call = 1;
  // A frame record is the caller's frame pointer and the return address. The caller's stack begins
  // right above the record; where it does not, the record may lie anywhere in the frame.
  bool record_ends_frame = false;
  bool signs_return_addresses = false;              // pointer authentication
  std::uint64_t address_mask = ~std::uint64_t{0};   // of data: without the tag in the top byte
  std::string_view system_call = {};                // the instruction
  std::string_view signal_trampoline = {};          // the code that signal handlers return to
  std::uint32_t signal_registers_at = 0;            // from the stack pointer in that code
  std::span<const std::uint8_t> signal_registers{}; // in the order in which they lie there
};

// Names for each ELF class and byte order; empty: the number of the machine has to do.
struct ArchNames {
  std::string_view little64;
  std::string_view big64 = little64;
  std::string_view little32 = little64;
  std::string_view big32 = big64;
};

enum class MappingSymbols : std::uint8_t {
  none,
  plain,    // "$x", "$d.3" (ELF for the Arm Architecture, 5.5.5)
  with_isa, // also "$xrv64i2p1" (RISC-V ELF psABI)
};

struct ArchInfo {
  Arch arch = Arch::unknown;
  std::uint16_t elf_machine = 0; // EM_*
  ArchNames names = {};          // as users see them

  // Instructions. Every one begins at a multiple of the alignment.
  std::uint8_t instruction_alignment = 1;
  std::uint8_t instruction_size = 0; // of each; 0: sizes differ
  bool has_decoder = false;          // src/insn tells where instructions begin
  std::uint8_t breakpoint_size = 1;  // UPROBE_SWBP_INSN_SIZE: offsets of probes are multiples
  const char* llvm_triple = nullptr; // of the disassembler; null: none is linked
  const char* llvm_features = "";
  // Registers that a function restores before it returns or makes a tail call.
  std::span<const std::string_view> callee_saved = {};

  // ELF.
  bool thumb_bit = false; // bit 0 of a code address selects the instruction set
  MappingSymbols mapping_symbols = MappingSymbols::none;
  bool wide_hash_words = false;    // DT_HASH of 64-bit files has words of 8 bytes
  std::uint32_t jump_slot = 0;     // R_*_JUMP_SLOT; 0: slots of imports are not looked for
  std::uint32_t glob_dat = 0;      // R_*_GLOB_DAT
  std::uint32_t loader_flags = 0;  // of native libraries in ld.so.cache (glibc dl-cache.h)
  std::string_view multiarch = {}; // Debian's folder of libraries

  // Android: "lib/ABI" in APKs (Build.SUPPORTED_ABIS), "lib/ISA" and "oat/ISA" in app folders, and
  // InstructionSet of art/runtime/arch/instruction_set.h.
  std::span<const std::string_view> android_abis = {};
  std::string_view android_isa = {};
  std::span<const std::uint32_t> art_instruction_sets = {};

  // Probes. Registers in the order of the words of struct pt_regs (user_pt_regs on arm64): the
  // number of a register in BPF programs and in records is its index.
  std::string_view kernel_name = {}; // uname -m; empty: probes are not attached there
  std::span<const RegisterInfo> registers = {};
  std::span<const std::string_view> register_names = {}; // the same names alone
  // Further names that people may use. Others that assemblers know are not here: parameters of
  // functions are called "fp".
  std::span<const RegisterAlias> aliases = {};
  std::uint8_t pc = 0; // index
  std::uint8_t stack_pointer = 0;
  const CallingConvention* native = nullptr;
  const CallingConvention* go = nullptr;     // Go's register ABI (abi-internal.md)
  const CallingConvention* compat = nullptr; // 32-bit code of this kernel; null: not probed

  const UnwindInfo* unwind = nullptr; // null: stacks are not unwound

  // Names of registers in operands of static probes; null: operands are not parsed.
  std::optional<OperandRegister> (*operand_register)(std::string_view name) = nullptr;
  // What kind of register it is that the kernel does not save: "vector register".
  std::optional<std::string_view> (*unsaved_register)(std::string_view name) = nullptr;

  // Indexes into registers.
  std::optional<std::uint32_t> register_called(std::string_view name) const; // or an alias
  std::optional<std::uint32_t> register_encoded(std::uint8_t encoding) const;
};

const ArchInfo& arch_info(Arch arch);
std::span<const ArchInfo* const> all_archs();

// unknown for other numbers.
Arch arch_of_elf(std::uint16_t elf_machine);

inline const ArchInfo& host_arch_info() { return arch_info(host_arch); }

} // namespace uprobectl
