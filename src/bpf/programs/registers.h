/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The registers a uprobe program is handed, per architecture, and which of them carry the six
 * integer arguments and the return value (System V AMD64 ABI 3.2.3, AAPCS64 6.8.2). */
#pragma once

#if defined(TARGET_X86_64)
/* struct pt_regs of arch/x86/include/asm/ptrace.h, stable since it is BPF context. */
struct registers {
  unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
  unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#define ARGUMENT_0(regs) ((regs)->di)
#define ARGUMENT_1(regs) ((regs)->si)
#define ARGUMENT_2(regs) ((regs)->dx)
#define ARGUMENT_3(regs) ((regs)->cx)
#define ARGUMENT_4(regs) ((regs)->r8)
#define ARGUMENT_5(regs) ((regs)->r9)
#define RETURN_VALUE(regs) ((regs)->ax)
#define PROBED_ADDRESS(regs) ((regs)->ip)
#elif defined(TARGET_AARCH64)
/* struct user_pt_regs of arch/arm64/include/uapi/asm/ptrace.h. */
struct registers {
  unsigned long x[31], sp, pc, pstate;
};
#define ARGUMENT_0(regs) ((regs)->x[0])
#define ARGUMENT_1(regs) ((regs)->x[1])
#define ARGUMENT_2(regs) ((regs)->x[2])
#define ARGUMENT_3(regs) ((regs)->x[3])
#define ARGUMENT_4(regs) ((regs)->x[4])
#define ARGUMENT_5(regs) ((regs)->x[5])
#define RETURN_VALUE(regs) ((regs)->x[0])
#define PROBED_ADDRESS(regs) ((regs)->pc)
#else
#error "no register layout for this architecture"
#endif
