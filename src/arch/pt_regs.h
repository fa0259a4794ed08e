/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The registers in the context of a uprobe program, as indexes of 64-bit words. Used by the BPF
 * programs (C) and by the register tables of this module (C++). */
#ifndef UPROBECTL_ARCH_PT_REGS_H
#define UPROBECTL_ARCH_PT_REGS_H

/* struct pt_regs of arch/x86/include/asm/ptrace.h, stable, because it is the context of BPF
 * programs. */
enum x86_64_register {
  X86_64_R15,
  X86_64_R14,
  X86_64_R13,
  X86_64_R12,
  X86_64_RBP,
  X86_64_RBX,
  X86_64_R11,
  X86_64_R10,
  X86_64_R9,
  X86_64_R8,
  X86_64_RAX,
  X86_64_RCX,
  X86_64_RDX,
  X86_64_RSI,
  X86_64_RDI,
  X86_64_ORIG_RAX,
  X86_64_RIP,
  X86_64_CS,
  X86_64_RFLAGS,
  X86_64_RSP,
  X86_64_SS,
};
#define X86_64_REGISTERS 21

/* struct user_pt_regs of arch/arm64/include/uapi/asm/ptrace.h; x0 to x30 have the numbers 0 to 30.
 */
enum arm64_register {
  ARM64_X0 = 0,
  ARM64_X28 = 28,
  ARM64_X30 = 30,
  ARM64_SP = 31,
  ARM64_PC = 32,
  ARM64_PSTATE = 33,
};
#define ARM64_REGISTERS 34

#endif
