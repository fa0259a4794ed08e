/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The registers in the context of a uprobe program, and those of the six integer arguments and the
 * return value (System V AMD64 ABI 3.2.3, AAPCS64 6.8.2). */
#pragma once

#include "../../arch/pt_regs.h"

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#if defined(TARGET_X86_64)
#define REGISTERS X86_64_REGISTERS
#define ARGUMENT_0_REGISTER X86_64_RDI
#define ARGUMENT_1_REGISTER X86_64_RSI
#define ARGUMENT_2_REGISTER X86_64_RDX
#define ARGUMENT_3_REGISTER X86_64_RCX
#define ARGUMENT_4_REGISTER X86_64_R8
#define ARGUMENT_5_REGISTER X86_64_R9
#define RETURN_REGISTER X86_64_RAX
#define SECOND_RETURN_REGISTER X86_64_RDX
#define PC_REGISTER X86_64_RIP
#define STACK_REGISTER X86_64_RSP
#define FLAGS_REGISTER X86_64_RFLAGS
/* Bytes of the return address, which a return pops. */
#define POPPED_BY_RETURN(pointer_size) (pointer_size)
#define RETURN_ADDRESS_ON_STACK 1
#define CODE_ADDRESS_BITS ((1UL << 56) - 1)
/* Addresses have tags only in processes that have asked for Linear Address Masking; then this
 * processor drops them in the kernel, too. In others such an address is not valid. */
#define ADDRESS_BITS (~0UL)
/* Go's src/cmd/compile/abi-internal.md: the current goroutine. */
#define GOROUTINE_REGISTER X86_64_R14
#elif defined(TARGET_AARCH64)
#define REGISTERS ARM64_REGISTERS
#define ARGUMENT_0_REGISTER ARM64_X0
#define ARGUMENT_1_REGISTER (ARM64_X0 + 1)
#define ARGUMENT_2_REGISTER (ARM64_X0 + 2)
#define ARGUMENT_3_REGISTER (ARM64_X0 + 3)
#define ARGUMENT_4_REGISTER (ARM64_X0 + 4)
#define ARGUMENT_5_REGISTER (ARM64_X0 + 5)
#define RETURN_REGISTER ARM64_X0
#define SECOND_RETURN_REGISTER (ARM64_X0 + 1)
#define PC_REGISTER ARM64_PC
#define STACK_REGISTER ARM64_SP
#define FLAGS_REGISTER ARM64_PSTATE
#define POPPED_BY_RETURN(pointer_size) 0
#define LINK_REGISTER(regs) ((regs)->word[ARM64_X30])
/* Without a signature, which a return address has before `retaa`. mmap() gives addresses of 48 bits
 * unless it is asked for others (Linux Documentation/arch/arm64/memory.rst). */
#define CODE_ADDRESS_BITS ((1UL << 48) - 1)
/* The processor ignores the top byte of addresses (Linux Documentation/arch/arm64/
 * tagged-pointers.rst). Android's allocator puts a tag there. */
#define ADDRESS_BITS ((1UL << 56) - 1)
#define GOROUTINE_REGISTER ARM64_X28
#else
#error "no register layout for this architecture"
#endif

struct registers {
  unsigned long word[REGISTERS];
};
#define ARGUMENT_0(regs) ((regs)->word[ARGUMENT_0_REGISTER])
#define ARGUMENT_1(regs) ((regs)->word[ARGUMENT_1_REGISTER])
#define ARGUMENT_2(regs) ((regs)->word[ARGUMENT_2_REGISTER])
#define ARGUMENT_3(regs) ((regs)->word[ARGUMENT_3_REGISTER])
#define ARGUMENT_4(regs) ((regs)->word[ARGUMENT_4_REGISTER])
#define ARGUMENT_5(regs) ((regs)->word[ARGUMENT_5_REGISTER])
#define RETURN_VALUE(regs) ((regs)->word[RETURN_REGISTER])
#define PROBED_ADDRESS(regs) ((regs)->word[PC_REGISTER])
#define STACK_POINTER(regs) ((regs)->word[STACK_REGISTER])
#define FLAGS(regs) ((regs)->word[FLAGS_REGISTER])
#define GOROUTINE(regs) ((regs)->word[GOROUTINE_REGISTER])

/* The verifier rejects loads from the context at computed offsets, so each register has its own
 * load. It is assembly, so that the compiler does not merge the loads. */
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
