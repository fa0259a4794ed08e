/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Aggregates: counts by process and by stack, and histograms. Counts by values: groups.h. */
#pragma once

#include "filter.h"

/* Increments the process_count of a key. Returns 1 if the key is new. */
static __always_inline int increment(void* counts, const void* key) {
  int is_new = 0;
  struct process_count* known = bpf_map_lookup_elem(counts, key);
  if (!known) {
    struct process_count fresh = {};
    bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
    bpf_map_update_elem(counts, key, &fresh, BPF_NOEXIST);
    known = bpf_map_lookup_elem(counts, key);
    if (!known) { /* the map is full */
      count_lost(LOST_TABLE_FULL);
      return 0;
    }
    is_new = 1;
  }
  __sync_fetch_and_add(&known->count, 1);
  return is_new;
}

/* Paired calls are counted as entries. */
static __always_inline __u32 counted_probe(__u64 number, __u32 phase) {
  int at_return = phase == PHASE_RETURN && !(settings.flags & PAIR_CALLS);
  return (__u32)number | (at_return ? COUNTED_AT_RETURN : 0);
}

static __always_inline void count_process(__u64 number, __u32 phase) {
  if (!(settings.flags & COUNT_BY_PROCESS)) return;
  struct process_probe key = {.process = current_ids() >> 32,
                              .probe = counted_probe(number, phase)};
  increment(&process_counts, &key);
}

static __always_inline __u64 return_address(struct registers* regs, const struct point_plan* plan) {
#ifdef RETURN_ADDRESS_ON_STACK
  __u64 address = 0;
  if (has(plan, POINTERS_32))
    read_user(&address, 4, STACK_POINTER(regs));
  else
    read_user(&address, 8, STACK_POINTER(regs));
  return address;
#else
  (void)plan;
  return LINK_REGISTER(regs);
#endif
}

/* Wakes the reader at once, because the process may end soon. Not inlined, because a program
 * and the functions that it calls share 512 bytes of stack. */
static __noinline int report_new_stack(struct registers* regs, __u32 process) {
  struct probe_record record = {.pid = process, .kind = RECORD_NEW_STACK};
#ifdef WITHOUT_RING
  bpf_perf_event_output(regs, &records, BPF_F_CURRENT_CPU, &record, sizeof(record));
#else
  (void)regs;
  bpf_ringbuf_output(&records, &record, sizeof(record), BPF_RB_FORCE_WAKEUP);
#endif
  return 0;
}

/* Whether the return address is at the top of the stack or in the link register. Frame pointers do
 * not lead to it then. At an exit this holds for LEFT_BY_RETURN and LEFT_BY_TAIL_CALL: two
 * comparisons would take more of the stack. */
static __always_inline int has_return_address(const struct point_plan* plan, __u32 phase,
                                              __u32 left_by) {
  return phase == PHASE_ENTRY ? has(plan, AT_FUNCTION_START) : ((left_by + 1) & 2) != 0;
}

#ifndef SLEEPABLE /* its kind of map is not for sleepable programs */
/* Returns the key of a stack: FNV-1a over words, in 62 bits. A run stores at most 8192 of them. */
static __always_inline __u64 collided_stack_key(const struct stack_frames* frames) {
  __u64 key = 0xcbf29ce484222325;
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_FRAMES; i++) {
    key = (key ^ frames->addresses[i]) * 0x100000001b3;
    key ^= key >> 32;
  }
  return (key >> 2) | STACK_COLLIDED;
}

/* Stores the user stack of the hit. Returns its key in `collided_stacks`, or a negative errno. */
static __noinline __s64 store_collided_stack(struct registers* regs) {
  __u64 thread = (__u32)current_ids();
  __u32 first = 0;
  void* empty = bpf_map_lookup_elem(&no_frames, &first);
  if (!empty) return -14; /* impossible */
  bpf_map_update_elem(&collided_stacks, &thread, empty, BPF_ANY);
  struct stack_frames* frames = bpf_map_lookup_elem(&collided_stacks, &thread);
  if (!frames) return -12; /* ENOMEM */
  __s64 result = -14;      /* EFAULT */
  if ((int)bpf_get_stack(regs, frames, sizeof(*frames), BPF_F_USER_STACK) > 0) {
    __u64 key = collided_stack_key(frames);
    int error = (int)bpf_map_update_elem(&collided_stacks, &key, frames, BPF_NOEXIST);
    result = error && error != -17 ? error : (__s64)key; /* EEXIST: it was here before */
  }
  bpf_map_delete_elem(&collided_stacks, &thread);
  return result;
}

/* Stores the user stack of the hit. Returns its number as in a stack_key. The function is not
 * inlined, because the stack of its callers has no space for it. */
static __noinline __s64 store_stack(struct registers* regs) {
  __s64 id = (int)bpf_get_stackid(regs, &stacks, BPF_F_USER_STACK);
  return id == -17 ? store_collided_stack(regs) : id; /* EEXIST: another stack with its hash */
}

/* The function is not inlined, because the stack of its callers has no space for it. */
static __noinline int fill_stack_key(struct stack_key* key, struct registers* regs,
                                     const struct point_plan* plan, __u64 number, int has_caller) {
  key->process = current_ids() >> 32;
  key->probe = (__u32)number;
  key->stack = store_stack(regs);
  key->caller = has_caller ? return_address(regs, plan) : 0;
  return 0;
}
#endif

static __always_inline void count_stack(struct registers* regs, const struct point_plan* plan,
                                        __u64 number, __u32 phase, __u32 left_by) {
#ifdef SLEEPABLE
  (void)regs, (void)plan, (void)number, (void)phase, (void)left_by;
#else
  if (!(settings.flags & COUNT_STACKS)) return;
  struct stack_key key;
  fill_stack_key(&key, regs, plan, number, has_return_address(plan, phase, left_by));
  key.probe = counted_probe(number, phase);
  if (increment(&stack_counts, &key)) report_new_stack(regs, key.process);
#endif
}

/* The code has no branches: each would double the ways through the program for the verifier of
 * Linux 5.10. */
static __always_inline __u64 histogram_bucket(__u64 value) {
  if (value < 4) return value;
  __u64 power = 0;
  __u64 rest = value;
#pragma clang loop unroll(full)
  for (__u32 bit = 6; bit-- > 0;) {
    __u64 above = rest >> (1U << bit);
    __u64 negative = -above;
    HIDE_VALUE(negative); /* else the compiler makes a branch of it */
    __u64 step = (above | negative) >> 63 << bit;
    rest >>= step;
    power += step;
  }
  return (power - 1) * 4 + (value >> (power - 2) & 3);
}

/* Sets *extreme to the maximum of itself and `value`. */
static __always_inline void raise_to(__u64* extreme, __u64 value) {
#ifdef SLEEPABLE /* other threads may run on this CPU between two instructions */
#pragma clang loop unroll(disable)
  for (__u32 attempt = 0; attempt < 8; attempt++) {
    __u64 known = *(volatile __u64*)extreme;
    if (value <= known || __sync_val_compare_and_swap(extreme, known, value) == known) return;
  }
#else /* for kernels without this instruction: missed only if another program interrupts this one  \
       */
  if (value > *extreme) *extreme = value;
#endif
}

static __always_inline void measure(__u64 number, __u64 value) {
  __u32 index = (__u32)number;
  struct histogram_counts* sums = bpf_map_lookup_elem(&histograms, &index);
  if (!sums) return;
  __u64 order = value ^ 1ULL << 63;
  raise_to(&sums->highest, order);
  raise_to(&sums->lowest, ~order);
  __sync_fetch_and_add(&sums->total, value);
  if ((__s64)value < 0) {
    __sync_fetch_and_add(&sums->negative, 1);
    return;
  }
  __u64 bucket = histogram_bucket(value);
  HIDE_VALUE(bucket); /* the register that is compared is the one that is used */
  if (bucket >= HISTOGRAM_BUCKETS) return;
  HIDE_VALUE(bucket);
  __sync_fetch_and_add(&sums->buckets[bucket], 1);
}

/* Measures a time of a call. */
static __always_inline void measure_time(__u64 number, struct probe_record* record) {
  __u64 time = 0;
  if (find_measured_time(record, &time)) measure(number, time);
}

static __always_inline void measure_reading(struct registers* regs, const struct point_plan* plan,
                                            __u64 number, __u32 phase, __u32 left_by) {
  if (!(settings.flags & MEASURE_VALUE) || !plan) return;
  if (plan->measured.phase != phase || !is_defined(&plan->measured, left_by)) return;
  __u64 value = 0;
  if (read_number(&plan->measured, regs, 0, &value) != 0) return;
  if ((settings.reading_features & USES_FACTOR) && plan->measured.factor_from != 0) {
    __u64 factor = 0;
    if (!is_defined(&plan->factor, left_by)) return;
    if (read_number(&plan->factor, regs, 0, &factor) != 0) return;
    value *= factor;
  }
  measure(number, value);
}
