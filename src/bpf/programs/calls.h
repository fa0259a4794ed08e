/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Pairs entries with returns. */
#pragma once

#include "user_memory.h"

/* An upper bound of a Go function's size: it calls morestack near its end. */
#define MAX_FUNCTION_BYTES (1UL << 20)

/* A g begins with its stack's bounds, lo and hi (Go's runtime/runtime2.go). Assembly code may use
 * the register for another value; then the key keeps the stack pointer. */
static __always_inline void key_by_goroutine(struct registers* regs, const struct point_plan* plan,
                                             struct call_key* key) {
  if (!has(plan, BY_GOROUTINE)) return;
  __u64 goroutine = GOROUTINE(regs);
  __u64 bounds[2] = {};
  if (read_resident(bounds, sizeof(bounds), goroutine) != 0) return;
  if (key->stack_pointer < bounds[0] || key->stack_pointer > bounds[1]) return;
  key->stack_pointer = bounds[1] - key->stack_pointer;
  key->goroutine = goroutine;
}

/* The upper end of the goroutine's stack, at the entry of a call; 0 without a goroutine. */
static __always_inline __u64 stack_end(struct registers* regs, const struct call_key* key) {
  return key->goroutine ? STACK_POINTER(regs) + key->stack_pointer : 0;
}

/* Whether this entry continues an open call with the same key. Go restarts a function after it has
 * grown the stack, which moves it, or after preemption (runtime/stack.go, newstack): one call with
 * two entries. A function that a panic has left is called again instead. The two cases differ in
 * the stack's address, or in the word below the stack pointer. There a restarted function has the
 * return address of its call of morestack (runtime/asm_amd64.s), others have a frame pointer. On
 * arm64 nothing is pushed, so a function that is called again counts as restarted. */
static __always_inline int is_restarted(struct registers* regs, const struct call_key* key,
                                        __u64 known_stack_end) {
  if (!key->goroutine) return 0;
  if (stack_end(regs, key) != known_stack_end) return 1;
#ifdef RETURN_ADDRESS_ON_STACK
  __u64 back = 0;
  if (read_resident(&back, sizeof(back), STACK_POINTER(regs) - 8) != 0) return 0;
  return back - PROBED_ADDRESS(regs) < MAX_FUNCTION_BYTES;
#else
  return 1;
#endif
}

static __always_inline struct call_key
make_call_key(struct registers* regs, const struct point_plan* plan, __u64 number, __u64 popped) {
  struct call_key key = {.stack_pointer = STACK_POINTER(regs) - popped,
                         .process = current_ids() >> 32,
                         .probe = (__u32)number};
  key_by_goroutine(regs, plan, &key);
  return key;
}

/* Returns the call's entry of `calls`, which no other thread writes to; null if the map is full.
 * `existed`: an earlier call with the same key has left it. */
static __always_inline struct probe_record* open_call(struct call_key* key, int* existed) {
  __u32 first = 0;
  void* empty = bpf_map_lookup_elem(&blank, &first);
  if (!empty) return 0;
  /* Before Linux 6.4 (d7ba4cc900bf) the result is not sign-extended to 64 bits. */
  int error = (int)bpf_map_update_elem(&calls, key, empty, BPF_NOEXIST);
  *existed = error == -17; /* EEXIST */
  if (error && !*existed) return 0;
  return bpf_map_lookup_elem(&calls, key);
}

/* Describes the call whose entry is complete. The time is last, so that the latency excludes this
 * program. */
static __always_inline void complete_call(struct probe_record* record, struct call_key* key) {
  record->tid = (__u32)current_ids();
  record->return_value = key->stack_pointer;
  record->time_ns = bpf_ktime_get_ns();
}

/* Returns the open call; null if its entry was not seen, was given up, or has not what was stored
 * for this call: memory of an entry that user space has removed while another program wrote to it
 * may have the values of two calls. A function of its own, because its callers have no stack left.
 */
static __noinline struct probe_record* find_open_call(struct call_key* key) {
  struct probe_record* record = bpf_map_lookup_elem(&calls, key);
  if (!record || record->time_ns < run_state.given_up_before ||
      record->return_value != key->stack_pointer)
    return 0;
  return record;
}

static __always_inline int close_call(struct call_key* key) {
  return bpf_map_delete_elem(&calls, key) == 0;
}

/* Whether the thread has the maximum of pending uretprobes: the kernel does not report the return
 * of a further call (Linux kernel/events/uprobes.c, prepare_uretprobe()). */
static __always_inline int is_nested_too_deep(void) {
  if (!(settings.flags & BY_TRAMPOLINE) || settings.nesting.utask == 0) return 0;
  void* at = (void*)bpf_get_current_task() + settings.nesting.utask;
  void* utask = 0;
  if (bpf_probe_read_kernel(&utask, sizeof(utask), at) != 0 || !utask) return 0;
  __u32 depth = 0;
  at = utask + settings.nesting.depth;
  if (bpf_probe_read_kernel(&depth, sizeof(depth), at) != 0) return 0;
  return depth >= MAX_REPLACED_RETURNS;
}
