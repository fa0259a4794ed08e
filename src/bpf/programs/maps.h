/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the built-in program keeps in the kernel. Sizes that depend on the run are set before it is
 * loaded. */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "bpf/record.h"
#include "registers.h"

const volatile struct builtin_settings settings = {};

struct {
#ifdef WITHOUT_RING
  __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(__u32));
#else
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4096);
#endif
} records SEC(".maps");

/* Per probe and CPU. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct probe_counts);
} counters SEC(".maps");

/* By enum lost_reason. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, LOST_REASONS);
  __type(key, __u32);
  __type(value, __u64);
} lost SEC(".maps");

/* Where cookies are shared: PLACE_KEY of a probe -> its number. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} places SEC(".maps");

/* How functions are left. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct exit_rule);
} exits SEC(".maps");

/* The processes that are looked at, by thread group; kept by somebody else. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} processes SEC(".maps");

/* The control group that is looked at, with all below it. */
struct {
  __uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(__u32));
} cgroups SEC(".maps");

/* Which call it is: two that are under way in a process never have the same stack pointer at the
 * entry of the same function, whatever threads, recursion, exceptions and switched stacks there
 * are. Go moves a stack to another address while calls are under way; what stays is the goroutine
 * and the distance from the upper end of its stack. */
struct call_key {
  __u64 stack_pointer; /* or the distance */
  __u64 goroutine;     /* the runtime's g; 0: not known by it */
  __u32 process;
  __u32 probe;
};

/* The calls that have not returned yet, each a record under construction. Nothing is forgotten to
 * make room: a call that finds the map full is counted. A call that was left without a return stays
 * until the next one from the same place, or until its process has ended. Preallocated: before
 * Linux 6.1 tracing programs must not allocate memory. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(struct call_key));
  __uint(value_size, sizeof(struct probe_record));
} calls SEC(".maps");

/* What a new slot begins as. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(struct probe_record));
} blank SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, struct process_probe);
  __type(value, struct process_count);
} process_counts SEC(".maps");

/* Run-time addresses, the probed one first. */
struct {
  __uint(type, BPF_MAP_TYPE_STACK_TRACE);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, MAX_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, struct stack_key);
  __type(value, struct process_count);
} stack_counts SEC(".maps");

/* Per probe and CPU. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct histogram_counts);
} histograms SEC(".maps");

/* Hits count only while this is set: after the last probe is placed and until the first is taken
 * away, so that all probes are watched for the same time. */
volatile __u32 armed = 0;

static __always_inline void count(__u64 number, __u32 counter) {
  __u32 index = (__u32)number;
  struct probe_counts* sums = bpf_map_lookup_elem(&counters, &index);
  if (sums) __sync_fetch_and_add(&sums->counters[counter], 1);
}

static __always_inline void count_back(__u64 number, __u32 counter) {
  __u32 index = (__u32)number;
  struct probe_counts* sums = bpf_map_lookup_elem(&counters, &index);
  if (sums) __sync_fetch_and_add(&sums->counters[counter], -1ULL);
}

static __always_inline void count_lost(__u32 reason) {
  __u32 index = reason;
  __u64* sum = bpf_map_lookup_elem(&lost, &index);
  if (sum) __sync_fetch_and_add(sum, 1);
}

/* The call of morestack is a function's last instruction but a few. */
#define MAX_FUNCTION_BYTES (1UL << 20)

/* Go's runtime/runtime2.go: a g begins with its stack's bounds, lo and hi. Assembly code may have
 * something else in the register; then the stack pointer has to do. */
static __always_inline void find_goroutine(struct registers* regs, struct call_key* key) {
  if (!(settings.flags & BY_GOROUTINE)) return;
  __u64 goroutine = GOROUTINE(regs);
  __u64 bounds[2] = {};
  if (bpf_probe_read_user(bounds, sizeof(bounds), (const void*)goroutine) != 0) return;
  if (key->stack_pointer < bounds[0] || key->stack_pointer > bounds[1]) return;
  key->stack_pointer = bounds[1] - key->stack_pointer;
  key->goroutine = goroutine;
}

/* At the entry of a call of a goroutine. */
static __always_inline __u64 stack_end(struct registers* regs, const struct call_key* key) {
  return key->goroutine ? STACK_POINTER(regs) + key->stack_pointer : 0;
}

/* Go begins a function anew when it has made room on the stack, which moves, or has let others run
 * (runtime/stack.go, newstack): that is one call, of which two entries are seen. A function that a
 * panic has left is called again instead. A stack at another place tells, or what the call of
 * morestack has pushed (runtime/asm_amd64.s), where functions that go on keep the frame pointer. On
 * arm64 nothing is pushed, so a function that is called again there counts as begun anew. */
static __always_inline int is_begun_anew(struct registers* regs, const struct call_key* key,
                                         __u64 known_stack_end) {
  if (!key->goroutine) return 0;
  if (stack_end(regs, key) != known_stack_end) return 1;
#ifdef RETURN_ADDRESS_ON_STACK
  __u64 back = 0;
  if (bpf_probe_read_user(&back, sizeof(back), (const void*)(STACK_POINTER(regs) - 8)) != 0)
    return 0;
  return back - PROBED_ADDRESS(regs) < MAX_FUNCTION_BYTES;
#else
  return 1;
#endif
}

static __always_inline struct call_key this_call(struct registers* regs, __u64 number,
                                                 __u64 taken) {
  struct call_key key = {.stack_pointer = STACK_POINTER(regs) - taken,
                         .process = bpf_get_current_pid_tgid() >> 32,
                         .probe = (__u32)number};
  find_goroutine(regs, &key);
  return key;
}

/* A slot that nobody else writes to; null where there is none to be had. `is_known`: an earlier
 * call has left it. */
static __always_inline struct probe_record* open_call(struct call_key* key, int* is_known) {
  __u32 first = 0;
  void* empty = bpf_map_lookup_elem(&blank, &first);
  if (!empty) return 0;
  /* Of 32 bits: before Linux 6.4 (d7ba4cc900bf) the upper ones are not those of a negative number.
   */
  int error = (int)bpf_map_update_elem(&calls, key, empty, BPF_NOEXIST);
  *is_known = error == -17; /* EEXIST */
  if (error && !*is_known) return 0;
  return bpf_map_lookup_elem(&calls, key);
}

static __always_inline int close_call(struct call_key* key) {
  return bpf_map_delete_elem(&calls, key) == 0;
}

/* Linux kernel/events/uprobes.c, prepare_uretprobe(): a thread has so many return probes under way,
 * and the return of a further call is not told. */
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
