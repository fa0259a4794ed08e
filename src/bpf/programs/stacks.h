/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What a record has of the user stack. */
#pragma once

#include "measure.h"

static __always_inline struct stack_head* head_of(struct probe_record* record) {
  return (void*)record + settings.stack_offset;
}

/* Linux kernel/events/uprobes.c, prepare_uretprobe(): the innermost call comes first, and the
 * address is the original one even where a function was entered by a jump from another with a
 * return probe. While the handlers of such a chain run at its return, Linux before 6.11 has already
 * freed the instances whose turn is over: what is found there has no stack pointer that anybody
 * looks for. */
static __always_inline void read_replaced_returns(struct probe_record* record) {
  if (settings.returns_offset == 0) return;
  struct replaced_returns* returns = (void*)record + settings.returns_offset;
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

/* The registers are in the record already. */
static __always_inline void begin_stack(struct probe_record* record, struct registers* regs,
                                        __u32 moment, __u32 left_by) {
  if (!(settings.flags & (COPY_STACK | WALK_STACK))) return;
  struct stack_head* head = head_of(record);
  head->address = STACK_POINTER(regs);
  head->size = 0;
  head->has_caller = 0;
  head->caller = 0;
  if (has_return_address(moment, left_by) && (settings.flags & (WALK_STACK | PAIR_CALLS)))
    head->caller = return_address(regs);
  read_replaced_returns(record);
}

/* Addresses are few, so that those of a call can be taken at its entry. */
static __always_inline void walk_stack(struct probe_record* record, struct registers* regs) {
  if (!(settings.flags & WALK_STACK)) return;
  struct stack_head* head = head_of(record);
  long size = bpf_get_stack(regs, head + 1, MAX_FRAMES * sizeof(__u64), BPF_F_USER_STACK);
  head->size = size > 0 ? (__u32)size : 0;
}

#ifndef WITHOUT_RING
/* bpf_probe_read_user copies all or nothing, so it is asked page by page, which costs one failure
 * where the stack ends; what is left for the last page by halves. Sizes are constants, and compared
 * with what is known of `have`, because the verifier does not see that their sum is bounded. */
#define SMALLEST_PAGE 4096
#define COPY_PART(part)                                                                            \
  if ((part) <= settings.stack_size) {                                                             \
    asm volatile("" : "+r"(have));                                                                 \
    if (have <= settings.stack_size - (part)) {                                                    \
      if (bpf_probe_read_user(to + have, part, (const void*)(from + have)) != 0) return have;      \
      have += (part);                                                                              \
    }                                                                                              \
  }

static __always_inline __u32 copy_user(void* to, __u64 from) {
  __u64 have = SMALLEST_PAGE - (from & (SMALLEST_PAGE - 1));
  asm volatile("" : "+r"(have));
  if (have > SMALLEST_PAGE) return 0; /* never, but the verifier has forgotten */
  if (have > settings.stack_size) have = settings.stack_size;
  if (bpf_probe_read_user(to, have, (const void*)from) != 0) return 0;
#pragma unroll
  for (__u32 page = 1; page <= MAX_STACK_BYTES / SMALLEST_PAGE; ++page)
    if (page * SMALLEST_PAGE <= settings.stack_size) COPY_PART(SMALLEST_PAGE)
  COPY_PART(2048)
  COPY_PART(1024)
  COPY_PART(512)
  COPY_PART(MIN_STACK_BYTES)
  return have;
}

/* Into a record that lies in the ring buffer. Perf buffers do it themselves. */
static __always_inline void copy_stack(struct probe_record* record, struct registers* regs) {
  if (!(settings.flags & COPY_STACK)) return;
  struct stack_head* head = head_of(record);
  head->size = copy_user(head + 1, STACK_POINTER(regs));
}
#endif

/* The return has taken the return address off the stack, or what the kernel had put in its place.
 */
static __always_inline void put_back_caller(struct probe_record* record, struct registers* regs,
                                            __u64 taken) {
  if (!(settings.flags & COPY_STACK)) return;
  struct stack_head* head = head_of(record);
  head->has_caller = taken == sizeof(head->caller) && (settings.flags & AT_FUNCTION_START) != 0;
  head->address = STACK_POINTER(regs) - (head->has_caller ? taken : 0);
}
