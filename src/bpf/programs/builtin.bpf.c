// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
// The built-in program: one record per hit into a ring buffer, and exact counts per probe, which
// stay right even where the buffer is full.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "../record.h"
#include "registers.h"

// Waking the reader costs more than the record (2.6 times fewer records per second), so it is woken
// only when this much waits for it; until then it comes by itself every few tens of milliseconds.
#define WAKE_AT_BACKLOG (256 * 1024)

// Sizes are set before loading.
struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4096);
} records SEC(".maps");

// Per probe and CPU: index 2 * cookie counts entries, 2 * cookie + 1 returns.
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 2);
  __type(key, __u32);
  __type(value, __u64);
} hits SEC(".maps");

// Records that found the ring buffer full.
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} lost SEC(".maps");

// Hits count only while this is set: after the last probe is placed and until the first is taken
// away, so that all probes are watched for the same time.
volatile __u32 armed = 0;

static __always_inline void count_hit(__u64 cookie, __u32 kind) {
  __u32 index = (__u32)cookie * 2 + kind;
  __u64* count = bpf_map_lookup_elem(&hits, &index);
  if (count) __sync_fetch_and_add(count, 1);
}

static __always_inline void count_lost(void) {
  __u32 index = 0;
  __u64* count = bpf_map_lookup_elem(&lost, &index);
  if (count) __sync_fetch_and_add(count, 1);
}

static __always_inline struct probe_record* begin_record(void* context, __u32 kind) {
  if (!armed) return 0;
  __u64 cookie = bpf_get_attach_cookie(context);
  count_hit(cookie, kind);
  struct probe_record* record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
  if (!record) {
    count_lost();
    return 0;
  }
  __u64 pid_tgid = bpf_get_current_pid_tgid();
  record->time_ns = bpf_ktime_get_ns();
  record->cookie = cookie;
  record->pid = pid_tgid >> 32;
  record->tid = (__u32)pid_tgid;
  record->cpu = bpf_get_smp_processor_id();
  record->kind = kind;
  bpf_get_current_comm(record->comm, sizeof(record->comm));
  return record;
}

static __always_inline void end_record(struct probe_record* record) {
  __u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
  bpf_ringbuf_submit(record, waiting >= WAKE_AT_BACKLOG ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

SEC("uprobe")
int on_entry(struct registers* regs) {
  struct probe_record* record = begin_record(regs, RECORD_ENTRY);
  if (!record) return 0;
  record->values[0] = ARGUMENT_0(regs);
  record->values[1] = ARGUMENT_1(regs);
  record->values[2] = ARGUMENT_2(regs);
  record->values[3] = ARGUMENT_3(regs);
  record->values[4] = ARGUMENT_4(regs);
  record->values[5] = ARGUMENT_5(regs);
  end_record(record);
  return 0;
}

SEC("uprobe")
int on_return(struct registers* regs) {
  struct probe_record* record = begin_record(regs, RECORD_RETURN);
  if (!record) return 0;
  record->values[0] = RETURN_VALUE(regs);
  for (int i = 1; i < 6; i++) record->values[i] = 0;
  end_record(record);
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
