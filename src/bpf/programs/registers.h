/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The registers a uprobe program is handed, per architecture, and which of them carry the six
 * integer arguments and the return value (System V AMD64 ABI 3.2.3, AAPCS64 6.8.2). A register's
 * number is its place in the structure, divided by 8. */
#pragma once

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

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
#define RETURN_REGISTER 10
#define PROBED_ADDRESS(regs) ((regs)->ip)
#define STACK_POINTER(regs) ((regs)->sp)
/* A return has taken the return address from the stack. */
#define TAKEN_BY_RETURN(pointer_size) (pointer_size)
#define RETURN_ADDRESS_ON_STACK 1
/* Go's src/cmd/compile/abi-internal.md: the current goroutine. */
#define GOROUTINE(regs) ((regs)->r14)
#define REGISTERS 21
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
#define RETURN_REGISTER 0
#define PROBED_ADDRESS(regs) ((regs)->pc)
#define STACK_POINTER(regs) ((regs)->sp)
#define TAKEN_BY_RETURN(pointer_size) 0
#define LINK_REGISTER(regs) ((regs)->x[30])
#define GOROUTINE(regs) ((regs)->x[28])
#define REGISTERS 34
#else
#error "no register layout for this architecture"
#endif

_Static_assert(sizeof(struct registers) == REGISTERS * 8, "register numbers");

/* The verifier takes no address within the registers that is computed: each has its own load, which
 * is assembly so that the compiler does not join them again. */
#define REGISTER_CASE(number)                                                                      \
  case number:                                                                                     \
    asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(value) : "r"(regs), "i"((number) * 8));           \
    break;
#define REGISTER_CASES_4(first)                                                                    \
  REGISTER_CASE(first)                                                                             \
  REGISTER_CASE((first) + 1) REGISTER_CASE((first) + 2) REGISTER_CASE((first) + 3)

static __always_inline __u64 register_value(struct registers* regs, __u32 number) {
  __u64 value = 0;
  switch (number) {
    REGISTER_CASES_4(0)
    REGISTER_CASES_4(4)
    REGISTER_CASES_4(8)
    REGISTER_CASES_4(12)
    REGISTER_CASES_4(16)
    REGISTER_CASE(20)
#if REGISTERS > 21
    REGISTER_CASE(21)
    REGISTER_CASE(22)
    REGISTER_CASE(23)
    REGISTER_CASES_4(24)
    REGISTER_CASES_4(28)
    REGISTER_CASE(32)
    REGISTER_CASE(33)
#endif
  }
  return value;
}
