/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Records the user stack. */
#pragma once

#include "measure.h"

static __always_inline struct stack_head* get_stack_head(struct probe_record* record) {
  return (void*)record + settings.stack_offset;
}

/* Reads the list of return_instances, innermost call first (Linux kernel/events/uprobes.c,
 * prepare_uretprobe()). Their address is the original one, even if a function was entered by a tail
 * call from another one with a uretprobe. Before Linux 6.11, at the return of such a chain, the
 * kernel has already freed the instances that it has handled. Data read from them is harmless:
 * user space ignores entries whose stack pointer it does not look for. */
static __always_inline void read_replaced_returns(struct replaced_returns* returns) {
  returns->count = 0;
  void* at = (void*)bpf_get_current_task() + settings.returns.utask;
  void* instance = 0;
  if (bpf_probe_read_kernel(&instance, sizeof(instance), at) != 0 || !instance) return;
  at = instance + settings.returns.return_instances;
  if (bpf_probe_read_kernel(&instance, sizeof(instance), at) != 0) return;
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_REPLACED_RETURNS && instance; i++) {
    struct replaced_return* each = &returns->list[i];
    at = instance + settings.returns.stack;
    if (bpf_probe_read_kernel(&each->stack_pointer, sizeof(each->stack_pointer), at) != 0) return;
    at = instance + settings.returns.orig_ret_vaddr;
    if (bpf_probe_read_kernel(&each->address, sizeof(each->address), at) != 0) return;
    returns->count = i + 1;
    at = instance + settings.returns.next;
    if (bpf_probe_read_kernel(&instance, sizeof(instance), at) != 0) return;
  }
}

/* Initializes the stack_head and reads the replaced return addresses. */
static __always_inline void init_stack(struct probe_record* record, struct registers* regs,
                                       const struct point_plan* plan, __u32 phase, __u32 left_by) {
  if (!(settings.flags & WALK_STACK) && !has(plan, COPY_STACK)) return;
  struct stack_head* head = get_stack_head(record);
  head->address = STACK_POINTER(regs);
  head->size = 0;
  head->has_caller = 0;
  head->caller = 0;
  if (has_return_address(plan, phase, left_by) && (settings.flags & (WALK_STACK | PAIR_CALLS)))
    head->caller = return_address(regs, plan);
  /* A uretprobe: the function has returned to its caller. */
  if ((settings.flags & ONLY_CALLER) && phase == PHASE_RETURN && left_by == LEFT_UNKNOWN)
    head->caller = PROBED_ADDRESS(regs);
  if (settings.returns_offset) read_replaced_returns((void*)record + settings.returns_offset);
}

/* Addresses are few, so those of a call are kept in `calls` from its entry on. */
static __always_inline void walk_stack(struct probe_record* record, struct registers* regs) {
  if (!(settings.flags & WALK_STACK)) return;
  struct stack_head* head = get_stack_head(record);
  if (settings.flags & ONLY_CALLER) {
    *(__u64*)(head + 1) = PROBED_ADDRESS(regs);
    head->size = sizeof(__u64);
    return;
  }
  long size = bpf_get_stack(regs, head + 1, MAX_FRAMES * sizeof(__u64), BPF_F_USER_STACK);
  head->size = size > 0 ? (__u32)size : 0;
}

#ifdef SLEEPABLE
/* Loads the pages of the stack that copy_stack() will read. */
static __always_inline void load_stack(struct registers* regs, const struct point_plan* plan) {
  if (!has(plan, COPY_STACK)) return;
  __u64 at = STACK_POINTER(regs);
  __u64 end = at + settings.stack_size;
#pragma clang loop unroll(disable)
  for (__u32 page = 0; page <= MAX_STACK_BYTES / SMALLEST_PAGE + 1; page++) {
    char byte;
    if (at >= end || read_user(&byte, 1, at) != 0) break;
    at = (at | (SMALLEST_PAGE - 1)) + 1;
  }
}
#endif

/* Copies page by page, because read_resident() copies all or nothing; at the end of the stack
 * one call fails. Nothing faults here: a record is reserved, and load_stack() has loaded the pages.
 * Sizes are constants, and `copied` is compared with each, because the verifier does not derive
 * that the sum is bounded. So the last part, which is less than a page, is read again with what
 * precedes it: position and size are the same for every stack. */
static __always_inline __u64 copy_user(void* to, __u64 from) {
  __u64 copied = SMALLEST_PAGE - (from & (SMALLEST_PAGE - 1));
  asm volatile("" : "+r"(copied));
  if (copied > SMALLEST_PAGE) return 0; /* impossible; for the verifier */
  if (copied > settings.stack_size) copied = settings.stack_size;
  if (read_resident(to, copied, from) != 0) return 0;
#pragma unroll
  for (__u32 page = 1; page <= MAX_STACK_BYTES / SMALLEST_PAGE; ++page)
    if (page * SMALLEST_PAGE <= settings.stack_size) {
      asm volatile("" : "+r"(copied));
      if (copied <= settings.stack_size - SMALLEST_PAGE) {
        if (read_resident(to + copied, SMALLEST_PAGE, from + copied) != 0) return copied;
        copied += SMALLEST_PAGE;
      }
    }
  if (copied >= settings.stack_size) return copied;
  __u64 size = settings.stack_size < SMALLEST_PAGE ? settings.stack_size : SMALLEST_PAGE;
  __u64 start = settings.stack_size - size;
  if (read_resident(to + start, size, from + start) == 0) return settings.stack_size;
  /* The stack ends before. A read that fails clears what it was to fill. */
  __u64 cleared = copied - start;
  HIDE_VALUE(cleared);
  if (cleared > size) return start; /* impossible; for the verifier */
  HIDE_VALUE(cleared);
  return read_resident(to + start, cleared, from + start) == 0 ? copied : start;
}

#ifndef WITHOUT_RING
/* Copies the stack into a record in the ring buffer. For perf buffers the kernel copies it. */
static __always_inline void copy_stack(struct probe_record* record, struct registers* regs,
                                       const struct point_plan* plan) {
  if (!has(plan, COPY_STACK)) return;
  struct stack_head* head = get_stack_head(record);
  head->size = copy_user(head + 1, STACK_POINTER(regs));
}
#endif

/* Sets the stack's address to that before the return, which has popped the return address (or the
 * address of the uretprobe trampoline). */
static __always_inline void restore_caller(struct probe_record* record, struct registers* regs,
                                           const struct point_plan* plan, __u64 popped) {
  if (!has(plan, COPY_STACK)) return;
  struct stack_head* head = get_stack_head(record);
  head->has_caller = popped == sizeof(head->caller) && has(plan, AT_FUNCTION_START);
  head->address = STACK_POINTER(regs) - (head->has_caller ? popped : 0);
}
