// SPDX-License-Identifier: Apache-2.0
// Describes processor architectures as data, one ArchInfo each. The tables are in src/arch: one
// source for each supported architecture, and others.cpp for those whose files are resolved only.
// Code that depends on the architecture (instruction decoding, PLT stubs, operands of static
// probes) is in the module that needs it and switches on Arch.
#pragma once

#include "uprobectl/util.hpp"

namespace uprobectl {

// An architecture as identified by e_machine. elf::Machine adds word size and byte order.
enum class Arch : std::uint8_t {
  unknown,
  x86_64,
  i386,
  arm64,
  arm,
  thumb, // the second instruction set of arm: code can be Thumb, files are arm
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

// The architecture of this build, on which probes can be attached and stacks captured.
#if defined(__x86_64__)
inline constexpr Arch host_arch = Arch::x86_64;
#elif defined(__aarch64__)
inline constexpr Arch host_arch = Arch::arm64;
#else
#error "not a supported host architecture: describe it in src/arch and docs/design/architectures.md"
#endif

// The register has no number in this numbering.
inline constexpr std::uint8_t no_register = 255;

// A register of struct pt_regs, with its number in each numbering.
struct RegisterInfo {
  std::string_view name;
  std::uint8_t dwarf = no_register;    // set for registers that unwinding restores
  std::uint8_t perf = no_register;     // its bit in perf_event_attr::sample_regs_user
  std::uint8_t encoding = no_register; // in operands of instructions; general-purpose registers
};

// Another name of a register; `index` is into ArchInfo::registers.
struct RegisterAlias {
  std::string_view name;
  std::uint8_t index = 0;
};

// A register or sub-register named in an assembler operand: "eax" is the low 32 bits of "rax".
struct OperandRegister {
  std::string whole;       // the full register; empty for the zero register
  std::uint32_t bits = 0;  // width of the sub-register
  std::uint32_t shift = 0; // its lowest bit in the full register: 8 for "ah"
};

// How a function call passes integers and pointers. Registers are indexes into ArchInfo::registers
// of the kernel's architecture, which for 32-bit code is the 64-bit one.
struct CallingConvention {
  std::span<const std::uint32_t> argument_registers; // in the order of the arguments
  bool has_stack_arguments = true;                   // the remaining ones are on the stack
  std::int64_t stack_arguments_offset = 0;           // from the stack pointer at function entry
  std::uint32_t slot = 8;                            // bytes per stack argument
  std::uint32_t pointer_size = 8;
  std::uint32_t stack_pointer = 0;
  std::uint32_t return_register = 0;
  std::uint32_t second_return_register = 0; // of structures of two words
  std::uint32_t vector_registers = 0;       // Go: how many results of floating point are in them
};

// Registers with consecutive DWARF numbers that struct pt_regs lacks, so that a BPF program cannot
// read them: "xmm0" to "xmm15".
struct UnsavedRegisters {
  std::string_view prefix; // of the name, before the number
  std::uint8_t first_dwarf = 0;
  std::uint8_t count = 0;
};

// Data for stack unwinding. Registers are DWARF numbers.
struct UnwindInfo {
  std::uint8_t stack_pointer = 0;
  std::uint8_t frame_pointer = 0;
  std::uint8_t pc = 0; // the return address column, if the ABI has one
  // Holds the return address at a function's entry; no_register if a call pushes it.
  std::uint8_t link_register = no_register;
  // Bytes to subtract from a return address to get an address inside the call instruction.
  std::uint8_t call_address_offset = 1;
  // The frame record (the caller's frame pointer and the return address) is at the top of the
  // frame, so that the caller's stack begins above it. If false, it can be anywhere in the frame.
  bool frame_record_at_top = false;
  bool signs_return_addresses = false;              // pointer authentication
  std::uint64_t address_mask = ~std::uint64_t{0};   // of data: without the tag in the top byte
  std::string_view system_call = {};                // the instruction
  std::string_view signal_trampoline = {};          // the code that signal handlers return to
  std::uint32_t signal_registers_offset = 0;        // from the stack pointer in the trampoline
  std::span<const std::uint8_t> signal_registers{}; // DWARF numbers in memory order
};

// Names for each ELF class and byte order; empty if only the machine number is shown.
struct ArchNames {
  std::string_view little64;
  std::string_view big64 = little64;
  std::string_view little32 = little64;
  std::string_view big32 = big64;
};

// The mapping symbols with which compilers mark code and data.
enum class MappingSymbols : std::uint8_t {
  none,
  plain,    // "$x", "$d.3" (ELF for the Arm Architecture, 5.5.5)
  with_isa, // also "$xrv64i2p1" (RISC-V ELF psABI)
};

// The description of one architecture.
struct ArchInfo {
  Arch arch = Arch::unknown;
  std::uint16_t elf_machine = 0; // EM_*
  ArchNames names = {};          // for messages and output

  // Instructions. Each begins at a multiple of the alignment.
  std::uint8_t instruction_alignment = 1;
  std::uint8_t instruction_size = 0; // 0: variable
  bool has_decoder = false;          // src/insn can find instruction boundaries
  // The breakpoint that the kernel writes over a probed instruction: UPROBE_SWBP_INSN (Linux
  // arch/*/include/asm/uprobes.h); empty if probes cannot be attached.
  std::string_view breakpoint = {};
  const char* llvm_triple = nullptr; // for the disassembler; null if none is linked
  const char* llvm_features = "";
  // Registers that a function restores before it returns or makes a tail call.
  std::span<const std::string_view> callee_saved = {};

  // ELF.
  bool thumb_bit = false; // bit 0 of a code address selects the instruction set
  MappingSymbols mapping_symbols = MappingSymbols::none;
  bool wide_hash_words = false;    // DT_HASH of 64-bit files has words of 8 bytes
  std::uint32_t jump_slot = 0;     // R_*_JUMP_SLOT; 0: import slots are not supported
  std::uint32_t glob_dat = 0;      // R_*_GLOB_DAT
  std::uint32_t thread_offset = 0; // R_*_TPOFF64 or R_*_TPREL64, in a GOT entry; 0: not supported
  std::uint32_t loader_flags = 0;  // of native libraries in ld.so.cache (glibc dl-cache.h)
  std::string_view multiarch = {}; // Debian's multiarch tuple: the directory of libraries

  // Android: "lib/ABI" in APKs (Build.SUPPORTED_ABIS), "lib/ISA" and "oat/ISA" in app directories,
  // and InstructionSet of art/runtime/arch/instruction_set.h.
  std::span<const std::string_view> android_abis = {};
  std::string_view android_isa = {};
  std::span<const std::uint32_t> art_instruction_sets = {}; // numbers of OAT 230 and newer
  // Architecture of system/core/debuggerd/proto/tombstone.proto.
  std::optional<std::uint8_t> tombstone_architecture = {};

  // Probes. Registers in the order of struct pt_regs (user_pt_regs on arm64). BPF programs and
  // records identify a register by its index.
  std::string_view kernel_name = {}; // uname -m; empty if probes cannot be attached
  std::span<const RegisterInfo> registers = {};
  std::span<const std::string_view> register_names = {}; // the same names alone
  // Other accepted names. "fp" is not among them, because it is a common parameter name.
  std::span<const RegisterAlias> aliases = {};
  std::uint8_t pc = 0; // index
  std::uint8_t stack_pointer = 0;
  // uprobe_events names registers without the letter for the size: "ax" for "rax" (regoffset_table
  // in Linux arch/x86/kernel/ptrace.c). If false, it has the names in `registers`.
  bool has_short_kernel_names = false;
  // The number of the system call uprobe(2), by which a call that replaces a probed nop enters the
  // kernel (Linux commit 56101b69c919 in v6.18); 0: none.
  std::uint32_t uprobe_system_call = 0;
  // The thread pointer points to the end of glibc's struct pthread, not to its start.
  bool thread_pointer_after_thread = false;
  // Bits of an address that mmap() returns; above them is a signature of the address.
  std::uint8_t mapped_address_bits = 56;
  const CallingConvention* native = nullptr;
  const CallingConvention* go = nullptr;     // Go's register ABI (abi-internal.md)
  const CallingConvention* compat = nullptr; // of 32-bit code; null if it cannot be probed

  const UnwindInfo* unwind = nullptr; // null if unwinding is not supported

  // Parses a register name in an operand of a static probe; null if operands are not supported.
  std::optional<OperandRegister> (*operand_register)(std::string_view name) = nullptr;
  // Returns the kind of a register that is not in struct pt_regs, for example "vector register".
  std::optional<std::string_view> (*unsaved_register)(std::string_view name) = nullptr;

  std::span<const UnsavedRegisters> unsaved = {};

  bool has_disassembler() const { return llvm_triple != nullptr; }
  // Return an index into `registers`; find_register() also accepts aliases.
  std::optional<std::uint32_t> find_register(std::string_view name) const;
  std::optional<std::uint32_t> find_encoded_register(std::uint8_t encoding) const;
  std::optional<std::uint32_t> find_dwarf_register(std::uint8_t number) const;
  // Returns the name of a DWARF register: "rdi", "xmm0", or "register N" if it is not known.
  std::string dwarf_register_name(std::uint8_t number) const;
};

const ArchInfo& arch_info(Arch arch);
std::span<const ArchInfo* const> all_archs();

// Returns Arch::unknown for an e_machine without an ArchInfo.
Arch arch_from_elf(std::uint16_t elf_machine);

// The architecture of a machine on which probes can be attached, by `uname -m`; null if there is
// none.
const ArchInfo* arch_from_kernel(std::string_view kernel_name);
// Their names: "x86_64 or aarch64".
std::string kernel_names();

inline const ArchInfo& host_arch_info() { return arch_info(host_arch); }

} // namespace uprobectl
