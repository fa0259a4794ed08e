/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* How long threads have waited: they were not on a CPU. Programs at the scheduler's tracepoints
 * count for threads that have hit a probe. */
#pragma once

#include "maps.h"

/* The waits of each thread, by its task_struct: a struct thread_waits, or with TRACKS_CAUSES a
 * struct thread_causes. The map is preallocated, because it is written with the lock of a run queue
 * held. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, __u64);
  __type(value, struct thread_waits);
} thread_waits SEC(".maps");

/* The initial value of an entry of `thread_waits`, with TRACKS_CAUSES. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(struct thread_causes));
} blank_thread SEC(".maps");

static __always_inline struct call_waits* waits_of(struct probe_record* record) {
  return (void*)record + settings.waits_offset;
}

/* The scheduler has not reported that a thread left or got a CPU. */
static __always_inline void miss_switch(struct thread_waits* waits) {
  if (settings.flags & TRACKS_CAUSES)
    __sync_fetch_and_add(&((struct thread_causes*)waits)->caused_ns[WAIT_PREEMPTED], SWITCH_MISSED);
  else
    __sync_fetch_and_add(&waits->waited_ns, SWITCH_MISSED);
  count_lost(LOST_SWITCHES);
}

/* The thread leaves its CPU now. */
static __always_inline void begin_to_wait(struct thread_waits* waits) {
  if (waits->left_ns > waits->came_ns) miss_switch(waits);
  waits->left_ns = bpf_ktime_get_ns();
}

/* The thread gets a CPU now. Returns whether it is known since when it has waited. */
static __always_inline int has_waited(struct thread_waits* waits) {
  if (waits->left_ns > waits->came_ns) return 1;
  miss_switch(waits);
  return 0;
}

/* Detects that the scheduler has not reported that the running thread got its CPU. */
static __always_inline void check_running(volatile struct thread_waits* waits) {
  /* In this order, because the thread may be preempted between the two. If it is preempted after
   * them, a later call may count one switch too many: its times are not known, and not wrong. */
  __u64 left = waits->left_ns;
  if (left <= waits->came_ns) return;
  waits->came_ns = left;
  miss_switch((struct thread_waits*)waits);
}

/* Returns those of this thread, which begin with its first hit; null if the map is full. */
static __always_inline struct thread_waits* find_thread_waits(void) {
  __u64 task = bpf_get_current_task();
  struct thread_waits* waits = bpf_map_lookup_elem(&thread_waits, &task);
  if (waits) {
    check_running(waits);
    return waits;
  }
  if (settings.flags & TRACKS_CAUSES) {
    __u32 first = 0;
    void* blank = bpf_map_lookup_elem(&blank_thread, &first);
    if (!blank) return 0; /* impossible */
    bpf_map_update_elem(&thread_waits, &task, blank, BPF_NOEXIST);
  } else {
    struct thread_waits none = {};
    bpf_map_update_elem(&thread_waits, &task, &none, BPF_NOEXIST);
  }
  waits = bpf_map_lookup_elem(&thread_waits, &task);
  if (!waits) count_lost(LOST_THREADS_FULL);
  return waits;
}

/* Returns how long the thread had waited at a time that it has just read. It may have been
 * preempted since then, also while this reads. */
static __always_inline __u64 waited_at(const volatile struct thread_waits* waits, __u64 time_ns) {
  __u64 waited = 0;
  if (!waits) return WAITS_UNKNOWN;
#pragma clang loop unroll(disable)
  for (__u32 attempt = 0; attempt < 4; attempt++) {
    __u64 came = waits->came_ns;
    waited = waits->waited_ns;
    if (came > time_ns) waited -= came - waits->left_ns;
    if (came == waits->came_ns) break;
  }
  return waited;
}

/* With TRACKS_CAUSES: stores the waits of the thread up to a time that it has just read, or
 * subtracts those stored before from them. `came_ns` is last: the thread may be preempted
 * meanwhile. Returns their sum. */
static __always_inline __u64 take_causes(const volatile struct thread_causes* thread,
                                         struct call_waits* waits, __u64 time_ns, int subtract) {
  __u64 preempted = 0;
  __u64 slept = 0;
  __u64 blocked = 0;
#pragma clang loop unroll(disable)
  for (__u32 attempt = 0; attempt < 4; attempt++) {
    __u64 came = thread->waits.came_ns;
    preempted = thread->caused_ns[WAIT_PREEMPTED];
    slept = thread->caused_ns[WAIT_SLEPT];
    blocked = thread->caused_ns[WAIT_BLOCKED];
    if (came > time_ns) {
      __u64 later = came - thread->waits.left_ns;
      __u32 cause = thread->cause;
      if (cause == WAIT_PREEMPTED) preempted -= later;
      if (cause == WAIT_SLEPT) slept -= later;
      if (cause == WAIT_BLOCKED) blocked -= later;
    }
    if (came == thread->waits.came_ns) break;
  }
  if (subtract) {
    preempted -= waits->caused_ns[WAIT_PREEMPTED];
    slept -= waits->caused_ns[WAIT_SLEPT];
    blocked -= waits->caused_ns[WAIT_BLOCKED];
  }
  waits->caused_ns[WAIT_PREEMPTED] = preempted;
  waits->caused_ns[WAIT_SLEPT] = slept;
  waits->caused_ns[WAIT_BLOCKED] = blocked;
  return preempted + slept + blocked;
}

/* Stores how long the thread had waited at a hit. `thread`: null if it is not known. */
static __always_inline void store_waits(struct thread_waits* thread, struct probe_record* record) {
  struct call_waits* waits = waits_of(record);
  if (!(settings.flags & TRACKS_CAUSES))
    waits->waited_ns = waited_at(thread, record->time_ns);
  else if (thread)
    waits->waited_ns = take_causes((struct thread_causes*)thread, waits, record->time_ns, 0);
  else
    waits->waited_ns = WAITS_UNKNOWN;
}

/* Stores how long the running thread had waited. Not inlined, to save the stack of its callers. */
static __noinline int note_waits(struct probe_record* record) {
  store_waits(find_thread_waits(), record);
  return 0;
}

/* Replaces the waits at the entry of a call by those of the call. They are unknown if the call
 * began in another thread, or if a switch was missed. */
static __noinline int end_waits(struct probe_record* record, __u64 now) {
  struct call_waits* waits = waits_of(record);
  __u64 began = waits->waited_ns;
  __u64 waited = waited_at(find_thread_waits(), now) - began;
  if (began == WAITS_UNKNOWN || waited >= SWITCH_MISSED || record->tid != (__u32)current_ids())
    waits->waited_ns = WAITS_UNKNOWN;
  else
    waits->waited_ns = waited < record->latency_ns ? waited : record->latency_ns;
  return 0;
}

/* Selects one of the times of a call or span. Returns 0 if it is not known. `waited`: how long the
 * call or span waited. */
static __always_inline int find_time(__u32 which, __u64 latency, __u64 waited, __u64* time) {
  *time = latency;
  if (which == TIME_LATENCY) return 1;
  if (waited == WAITS_UNKNOWN) return 0;
  *time = which == TIME_WAITING ? waited : latency - waited;
  return 1;
}

/* Finds what find_time() does for a call that has returned, and also the parts of TIME_WAITING. */
static __always_inline int find_call_time(__u32 which, const struct probe_record* record,
                                          __u64* time) {
  const struct call_waits* waits = (const void*)record + settings.waits_offset;
  __u64 waited = settings.waits_offset ? waits->waited_ns : WAITS_UNKNOWN;
  if (which < TIME_PREEMPTED) return find_time(which, record->latency_ns, waited, time);
  if (!(settings.flags & TRACKS_CAUSES) || waited == WAITS_UNKNOWN) return 0;
  *time = waits->caused_ns[which - TIME_PREEMPTED];
  return 1;
}

/* The time of a call to measure or to sum up. */
static __always_inline int find_measured_time(struct probe_record* record, __u64* time) {
  return find_call_time(settings.measured_time, record, time);
}
