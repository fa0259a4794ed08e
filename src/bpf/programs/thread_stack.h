/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Makes the kernel run a program on the stack of the thread that hit the probe. */
#pragma once

/* Linux 6.13 and later give kprobe programs with 64 bytes of stack or more a "private stack": one
 * area for each CPU (a76ab5731e32, "bpf: Find eligible subprogs for private stack support"). A
 * thread in a uprobe program can be preempted, and sleeps in a sleepable one; another thread that
 * hits a probe on the same CPU then overwrites its local variables. Values get wrong, records stay
 * reserved, and spilled pointers oops the kernel.
 *
 * No function of a program that has a tail call gets a private stack (bpf_enable_priv_stack() and
 * check_max_stack_depth() in kernel/bpf/verifier.c). The verifier records that before it removes
 * dead code, so this call is never reached and needs no map, and nothing of it is left in the
 * loaded program. Call it first in each function with a SEC(). Kernels that do not combine tail
 * calls with functions have no private stacks; user space replaces the call there
 * (bpf/thread_stack.hpp). */
static __always_inline void stay_on_thread_stack(void) {
  asm volatile("r0 = 0\n"
               "if r0 == 0 goto +1\n"
               "call 12\n" /* bpf_tail_call() */
               ::
                   : "r0");
}
