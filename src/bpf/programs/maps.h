/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The maps of the built-in program, and the functions that count with them. Sizes
 * that depend on the run are set before the program is loaded. */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "bpf/record.h"
#include "registers.h"

const volatile struct builtin_settings settings = {};
#include "namespace_ids.h"

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

/* The point plans, by their numbers. Each is a struct point_plan without its last, unused readings.
 */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(struct point_plan));
} plans SEC(".maps");

/* The filters of the plans: a struct filter without its last terms. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(struct filter));
} filters SEC(".maps");

/* The values of all sets, in which filters look up theirs. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, struct set_member);
  __type(value, __u8);
} set_members SEC(".maps");

/* The texts of large sets, by chunk: the next state. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, struct text_chunk);
  __type(value, __u32);
} text_chunks SEC(".maps");

/* The code in which callers lie, by thread group id. User space fills the map. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct caller_map);
} callers SEC(".maps");

/* The states of all patterns, by pattern number and state. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(pattern_state));
} patterns SEC(".maps");

/* The number of each probe's plan, if there are several. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} probe_plans SEC(".maps");

/* The counts of hits, by probe and CPU. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct probe_counts);
} counters SEC(".maps");

/* The number of losses, by enum lost_reason and CPU. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, LOST_REASONS);
  __type(key, __u32);
  __type(value, __u64);
} lost SEC(".maps");

/* The number of a probe, by its PROBE_NUMBER_KEY, for probes that share a cookie. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} probe_numbers SEC(".maps");

/* The rules of exits, by the number in EXIT_COOKIE. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct exit_rule);
} exits SEC(".maps");

/* The traced processes, by thread group id. User space replaces it with the map `processes` of
 * processes.bpf.c. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} processes SEC(".maps");

/* The traced control group; includes its descendants. */
struct {
  __uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(__u32));
} cgroups SEC(".maps");

/* Identifies an open call. Two open calls of a function in one process never have the same stack
 * pointer at their entry, even with threads, recursion, exceptions and switched stacks. Go moves
 * stacks during calls; the goroutine and the distance from the upper end of its stack stay. */
struct call_key {
  __u64 stack_pointer; /* or the distance, bytes */
  __u64 goroutine;     /* the address of the runtime's g; 0: keyed by stack pointer */
  __u32 process;
  __u32 probe;
};

/* The open calls: a partial record for each. If the map is full, further calls are counted as
 * LOST_CALLS_FULL. A call that ended without a return stays until the next call with its key, or
 * until user space removes it (bpf/open_calls.hpp). No LRU map, because that evicts entries that a
 * program is using. Preallocated, because tracing programs must not allocate memory before
 * Linux 6.1. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(struct call_key));
  __uint(value_size, sizeof(struct probe_record));
} calls SEC(".maps");

/* Calls that have left their function by a jump to one whose exits are probed. A call that is left
 * by an exception or longjmp() after that stays until it is the least recently used. */
struct jumped_call {
  __u64 return_address;
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1);
  __type(key, struct call_key);
  __type(value, struct jumped_call);
} jumped_calls SEC(".maps");

/* The open spans: the hit that began each, the half of a record. User space never removes one:
 * those that are left at the end are what was not freed or released. If the map is full, further
 * spans are counted as SPANS_FULL. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(struct span_key));
  __uint(value_size, sizeof(struct probe_record));
} spans SEC(".maps");

/* The counts of spans, by span and CPU. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct span_counts);
} span_counts SEC(".maps");

/* The initial value of an entry of `calls`. */
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

/* Run-time addresses, the probed one first. The kernel keeps one stack for each value of a hash. */
struct {
  __uint(type, BPF_MAP_TYPE_STACK_TRACE);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, MAX_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct stack_frames {
  __u64 addresses[MAX_FRAMES]; /* 0 after the last one */
};

/* Stacks for which another one has the entry of `stacks`, by collided_stack_key(). While a stack
 * is collected it is here by the id of its thread. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u64);
  __type(value, struct stack_frames);
} collided_stacks SEC(".maps");

/* Zero: new entries of `collided_stacks` are copied from here. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct stack_frames);
} no_frames SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, struct stack_key);
  __type(value, struct process_count);
} stack_counts SEC(".maps");

/* The key is a record, see group_feature. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(struct probe_record));
  __uint(value_size, sizeof(struct group_sums));
} groups SEC(".maps");

/* The histograms, by probe and CPU. */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct histogram_counts);
} histograms SEC(".maps");

/* The state of sampling and of the rate limit, by probe. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct limit_state);
} limits SEC(".maps");

/* The flags of each probe, enum trigger_flag. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} trigger_flags SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct recording_state);
} recording_state SEC(".maps");

/* Lost records by thread id, with NEST_CALLS. Only written when a record is lost. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} thread_losses SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct thread_losses_state);
} losses_state SEC(".maps");

volatile struct run_state run_state = {};

/* Returns the plan of a probe; null if the run needs none, or the number is unknown. */
static __always_inline const struct point_plan* find_plan(__u64 number) {
  if (settings.plan_count == 0) return 0;
  __u32 index = 0;
  if (settings.plan_count > 1) {
    __u32 probe = (__u32)number;
    __u32* of_probe = bpf_map_lookup_elem(&probe_plans, &probe);
    if (!of_probe) return 0;
    index = *of_probe;
  }
  return bpf_map_lookup_elem(&plans, &index);
}

/* Whether a flag of PLAN_FLAGS is set. `plan` may be null if no flag differs between plans. */
static __always_inline int has(const struct point_plan* plan, __u32 flag) {
  if (!(settings.flags & flag)) return 0;
  if (!(settings.plan_flags & flag)) return 1;
  return plan && (plan->flags & flag) != 0;
}

static __always_inline __u32 pointer_size(const struct point_plan* plan) {
  return has(plan, POINTERS_32) ? 4 : 8;
}

static __always_inline void count(__u64 number, __u32 counter) {
  __u32 index = (__u32)number;
  struct probe_counts* sums = bpf_map_lookup_elem(&counters, &index);
  if (sums) __sync_fetch_and_add(&sums->counters[counter], 1);
}

static __always_inline void uncount(__u64 number, __u32 counter) {
  __u32 index = (__u32)number;
  struct probe_counts* sums = bpf_map_lookup_elem(&counters, &index);
  if (sums) __sync_fetch_and_add(&sums->counters[counter], -1ULL);
}

static __always_inline void count_lost(__u32 reason) {
  __u32 index = reason;
  __u64* sum = bpf_map_lookup_elem(&lost, &index);
  if (sum) __sync_fetch_and_add(sum, 1);
}

/* Counts a hit whose record could not be sent. */
static __always_inline void count_lost_record(__u32 reason) {
  count_lost(reason);
  if (!(settings.flags & NEST_CALLS)) return;
  __u32 first = 0;
  struct thread_losses_state* state = bpf_map_lookup_elem(&losses_state, &first);
  if (!state) return; /* impossible */
  __u32 thread = (__u32)current_ids();
  __u64* known = bpf_map_lookup_elem(&thread_losses, &thread);
  __u64 one = 1;
  if (known)
    *known += 1; /* no other thread writes it */
  else if (bpf_map_update_elem(&thread_losses, &thread, &one, BPF_ANY) != 0)
    __sync_fetch_and_add(&state->others, 1);
  state->any = 1;
}

static __always_inline __u64 lost_before(void) {
  __u32 first = 0;
  struct thread_losses_state* state = bpf_map_lookup_elem(&losses_state, &first);
  if (!state || !state->any) return 0;
  __u32 thread = (__u32)current_ids();
  __u64* known = bpf_map_lookup_elem(&thread_losses, &thread);
  return (known ? *known : 0) + state->others;
}
