// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
// The built-in program: one record per hit into a buffer, and exact counts per probe, which stay
// right even where the buffer is full.
//
// Compiled four times, because a kernel refuses a program with a helper that it does not know, run
// or not: WITHOUT_COOKIE for Linux before 5.15 and for ways of attaching that hand no cookie to the
// program, WITHOUT_RING for Linux before 5.8.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "../record.h"
#include "registers.h"

// Sizes are set before loading.
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

// Per probe and CPU: index 2 * cookie counts entries, 2 * cookie + 1 returns.
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 2);
  __type(key, __u32);
  __type(value, __u64);
} hits SEC(".maps");

// Records that found the buffer full.
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u64);
} lost SEC(".maps");

// Where cookies are shared: PLACE_KEY of a probe -> its number.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} places SEC(".maps");

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

static __always_inline __u64 own_cookie(void* context) {
#ifdef WITHOUT_COOKIE
  (void)context;
  // Each probe runs a copy of the program with its number in place of this one.
  __u64 number;
  asm volatile("%0 = " NUMBER_PLACEHOLDER_TEXT " ll" : "=r"(number));
  return number;
#else
  return bpf_get_attach_cookie(context);
#endif
}

// Which probe it is.
static __always_inline __u64 own_number(struct registers* regs) {
  __u64 cookie = own_cookie(regs);
  if (!(cookie & SHARED_COOKIE)) return cookie;
  __u32 key = PLACE_KEY(cookie, PROBED_ADDRESS(regs));
  __u32* number = bpf_map_lookup_elem(&places, &key);
  return number ? *number : cookie;
}

static __always_inline void fill_in(struct probe_record* record, __u64 cookie, __u32 kind) {
  __u64 pid_tgid = bpf_get_current_pid_tgid();
  record->time_ns = bpf_ktime_get_ns();
  record->cookie = cookie;
  record->pid = pid_tgid >> 32;
  record->tid = (__u32)pid_tgid;
  record->cpu = bpf_get_smp_processor_id();
  record->kind = kind;
  bpf_get_current_comm(record->comm, sizeof(record->comm));
}

static __always_inline void fill_in_values(struct probe_record* record, struct registers* regs,
                                           __u32 kind) {
  if (kind == RECORD_RETURN) {
    record->values[0] = RETURN_VALUE(regs);
    for (int i = 1; i < 6; i++) record->values[i] = 0;
    return;
  }
  record->values[0] = ARGUMENT_0(regs);
  record->values[1] = ARGUMENT_1(regs);
  record->values[2] = ARGUMENT_2(regs);
  record->values[3] = ARGUMENT_3(regs);
  record->values[4] = ARGUMENT_4(regs);
  record->values[5] = ARGUMENT_5(regs);
}

static __always_inline int tell(struct registers* regs, __u32 kind) {
  if (!armed) return 0;
  __u64 cookie = own_number(regs);
  count_hit(cookie, kind);
#ifdef WITHOUT_RING
  struct probe_record record;
  fill_in(&record, cookie, kind);
  fill_in_values(&record, regs, kind);
  // The reader's watermark wakes it, as seldom as below.
  if (bpf_perf_event_output(regs, &records, BPF_F_CURRENT_CPU, &record, sizeof(record)) != 0)
    count_lost();
#else
  struct probe_record* record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
  if (!record) {
    count_lost();
    return 0;
  }
  fill_in(record, cookie, kind);
  fill_in_values(record, regs, kind);
  __u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
  bpf_ringbuf_submit(record, waiting >= WAKE_AT_BACKLOG ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
#endif
  return 0;
}

SEC("uprobe")
int on_entry(struct registers* regs) { return tell(regs, RECORD_ENTRY); }

SEC("uprobe")
int on_return(struct registers* regs) { return tell(regs, RECORD_RETURN); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
