/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Counts hits by the values of their arguments, and sums a value for each group. The key of a group
 * is a record without what differs between the hits of the group, so that user space decodes it in
 * the same way. */
#pragma once

#include "measure.h"

/* Removes from the results of the readings what is not part of the key. */
static __always_inline void make_group_values(struct probe_record* record,
                                              const struct capture_plan* plan, __u32 left_by,
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

/* Makes the head of the key. Returns the process. */
static __always_inline __u32 make_group_head(struct group_head* head, struct registers* regs,
                                             const struct capture_plan* plan, __u64 number,
                                             __u32 kind, __u32 left_by) {
  __u64 pid_tgid = current_ids();
  __u32 process = pid_tgid >> 32;
  __builtin_memset(head, 0, sizeof(*head));
  head->probe = number;
  if (settings.group_by & (BY_PROCESS_ID | BY_STACK)) head->process = process;
  if (settings.group_by & BY_THREAD_ID) head->thread = (__u32)pid_tgid;
  if (settings.group_by & BY_THREAD_NAME) bpf_get_current_comm(head->comm, sizeof(head->comm));
#ifndef SLEEPABLE /* its kind of map is not for sleepable programs */
  if (settings.group_by & BY_STACK) {
    __u32 phase = kind == RECORD_ENTRY ? PHASE_ENTRY : PHASE_RETURN;
    head->stack = bpf_get_stackid(regs, &stacks, BPF_F_USER_STACK);
    if (has_return_address(plan, phase, left_by)) head->caller = return_address(regs, plan);
  }
#else
  (void)regs, (void)plan;
#endif
  head->kind = kind;
  if (left_by == LEFT_BY_TAIL_CALL) head->left_by = left_by;
  return process;
}

/* Counts a hit. `record` has its values and becomes the key of its group. */
static __always_inline void count_group(struct probe_record* record, struct registers* regs,
                                        const struct capture_plan* plan, __u64 number, __u32 kind,
                                        __u32 left_by, __u64 latency) {
  struct group_sums one = {};
  if (settings.max_readings > 0 && plan) make_group_values(record, plan, left_by, &one);
  if (settings.group_by & SUMS_LATENCY) {
    one.measured = 1;
    one.sum = latency;
  }
  __u32 process = make_group_head((struct group_head*)record, regs, plan, number, kind, left_by);
  struct group_sums* known = bpf_map_lookup_elem(&groups, record);
  if (!known) {
    struct group_sums fresh = {};
    bpf_map_update_elem(&groups, record, &fresh, BPF_NOEXIST);
    known = bpf_map_lookup_elem(&groups, record);
    if (!known) { /* the map is full */
      count_lost(LOST_TABLE_FULL);
      return;
    }
    if (settings.group_by & BY_STACK) report_new_stack(regs, process);
  }
  __sync_fetch_and_add(&known->count, 1);
  if (one.measured) {
    __sync_fetch_and_add(&known->measured, 1);
    __sync_fetch_and_add(&known->sum, one.sum);
  }
}
