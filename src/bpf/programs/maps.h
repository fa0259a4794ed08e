/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the built-in program keeps in the kernel. Sizes that depend on the run are set before it is
 * loaded. */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "registers.h"
#include "uprobectl/bpf/record.h"

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

/* Records that found the buffer full. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
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
 * entry of the same function, whatever threads, recursion, exceptions and moved stacks there are.
 */
struct call_key {
  __u64 stack_pointer;
  __u32 process;
  __u32 probe;
};

/* The calls that have not returned yet, each a record under construction; time_ns is 0 where none
 * is. Slots are kept for the next call from the same place, which saves two updates a call, and
 * calls that never return are forgotten in time. */
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
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
  __uint(value_size, MOST_FRAMES * sizeof(__u64));
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

static __always_inline void count_lost(void) {
  __u32 index = 0;
  __u64* sum = bpf_map_lookup_elem(&lost, &index);
  if (sum) __sync_fetch_and_add(sum, 1);
}

static __always_inline struct call_key this_call(struct registers* regs, __u64 number,
                                                 __u64 taken) {
  struct call_key key = {.stack_pointer = STACK_POINTER(regs) - taken,
                         .process = bpf_get_current_pid_tgid() >> 32,
                         .probe = (__u32)number};
  return key;
}

/* A slot that nobody else writes to; null where there is none to be had. */
static __always_inline struct probe_record* keep_call(struct call_key* key) {
  struct probe_record* record = bpf_map_lookup_elem(&calls, key);
  if (record) return record;
  __u32 first = 0;
  void* empty = bpf_map_lookup_elem(&blank, &first);
  if (!empty || bpf_map_update_elem(&calls, key, empty, BPF_ANY) != 0) return 0;
  return bpf_map_lookup_elem(&calls, key);
}
