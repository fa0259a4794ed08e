/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Counts hits by the values of their arguments, and sums a value for each group. The key of a group
 * is a record without what differs between the hits of the group, which user space decodes as one.
 */
#pragma once

#include "measure.h"

/* Removes from the results of the readings what is not part of the key. */
static __always_inline void make_group_values(struct probe_record* record,
                                              const struct point_plan* plan, __u32 left_by,
                                              struct group_sums* sums) {
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_READINGS; i++) {
    if (i >= settings.max_readings || i >= plan->reading_count) break;
    const struct reading* reading = &plan->readings[i];
    struct reading_result* result = (struct reading_result*)(record + 1) + i;
    __u32 part = reading->in_group;
    int defined = is_defined(reading, left_by);
    if (part & GROUP_SUMMED && defined && result->status >= 0) {
      sums->measured = 1;
      sums->sum = result->value;
    }
    if (part & GROUP_OMITTED || !defined) {
      result->status = 0;
      result->value = 0;
    } else if (part & GROUP_ONLY_NULL || result->status < 0) {
      result->value = result->value != 0; /* addresses differ */
    }
  }
}

/* Makes the head of the key: what hits are not counted by is 0. */
static __always_inline void fill_group_head(struct probe_record* record, __u64 number, __u32 kind,
                                            __u32 left_by) {
  __u64 pid_tgid = current_ids();
  __builtin_memset(record, 0, sizeof(*record));
  record->cookie = number;
  record->kind = kind;
  if (left_by == LEFT_BY_TAIL_CALL) record->left_by = left_by;
  if (settings.group_by & BY_PROCESS_ID) record->pid = pid_tgid >> 32;
  if (settings.group_by & BY_THREAD_ID) record->tid = (__u32)pid_tgid;
  if (settings.group_by & BY_THREAD_NAME) bpf_get_current_comm(record->comm, sizeof(record->comm));
  if (settings.group_by & BY_CPU) record->cpu = bpf_get_smp_processor_id();
}

static __always_inline void fill_group_stack(struct probe_record* record, struct registers* regs,
                                             const struct point_plan* plan, __u64 number,
                                             __u32 kind, __u32 left_by) {
#ifdef SLEEPABLE
  (void)record, (void)regs, (void)plan, (void)number, (void)kind, (void)left_by;
#else
  if (!(settings.group_by & BY_STACK)) return;
  struct stack_key* key = (void*)record + settings.stack_offset;
  __u32 phase = kind == RECORD_ENTRY ? PHASE_ENTRY : PHASE_RETURN;
  fill_stack_key(key, regs, plan, number, has_return_address(plan, phase, left_by));
#endif
}

/* Counts a hit. `record` has its values and becomes the key of its group. */
static __always_inline void count_group(struct probe_record* record, struct registers* regs,
                                        const struct point_plan* plan, __u64 number, __u32 kind,
                                        __u32 left_by) {
  struct group_sums one = {};
  __u64 time = 0;
  if (settings.max_readings > 0 && plan) make_group_values(record, plan, left_by, &one);
  if ((settings.group_by & SUMS_LATENCY) && find_measured_time(record, &time)) {
    one.measured = 1;
    one.sum = time;
  }
  if (settings.waits_offset) { /* they are not part of the key */
    struct call_waits* waits = waits_of(record);
    waits->waited_ns = 0;
    if (settings.flags & TRACKS_CAUSES)
      __builtin_memset(waits->caused_ns, 0, sizeof(waits->caused_ns));
  }
  fill_group_head(record, number, kind, left_by);
  fill_group_stack(record, regs, plan, number, kind, left_by);
  struct group_sums* known = bpf_map_lookup_elem(&groups, record);
  if (!known) {
    struct group_sums fresh = {};
    bpf_map_update_elem(&groups, record, &fresh, BPF_NOEXIST);
    known = bpf_map_lookup_elem(&groups, record);
    if (!known) { /* the map is full */
      count_lost(LOST_TABLE_FULL);
      return;
    }
    if (settings.group_by & BY_STACK) report_new_stack(regs, current_ids() >> 32);
  }
  __sync_fetch_and_add(&known->count, 1);
  if (one.measured) {
    __sync_fetch_and_add(&known->measured, 1);
    __sync_fetch_and_add(&known->sum, one.sum);
  }
}
