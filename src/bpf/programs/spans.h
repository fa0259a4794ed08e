/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Spans from one hit to another one with the same key (--span). The hit that begins a span is kept
 * in the map `spans`. At the hit that ends it a record of both is sent. */
#pragma once

#include "calls.h"
#include "filter.h"
#include "limits.h"
#include "measure.h"

static __always_inline struct span_part* get_span_part(struct probe_record* record) {
  return (void*)record + settings.span_offset;
}

/* The half of the record for the hit that began the span. */
static __always_inline struct probe_record* get_begin(struct probe_record* record) {
  return (void*)record + settings.hit_size;
}

static __always_inline void count_span(__u32 span, __u32 counter) {
  struct span_counts* sums = bpf_map_lookup_elem(&span_counts, &span);
  if (sums) __sync_fetch_and_add(&sums->counters[counter], 1);
}

/* Stores where the stack of the hit is found. */
static __always_inline void keep_stack(struct probe_record* record, struct registers* regs,
                                       const struct point_plan* plan, __u32 phase, __u32 left_by) {
#ifdef SLEEPABLE /* its kind of map is not for sleepable programs */
  (void)record, (void)regs, (void)plan, (void)phase, (void)left_by;
#else
  if (!(settings.flags & SPAN_STACKS)) return;
  struct span_part* part = get_span_part(record);
  part->caller = 0;
  part->stack = store_stack(regs);
  if (has_return_address(plan, phase, left_by)) part->caller = return_address(regs, plan);
#endif
}

/* Sets the key of the span. Returns 0, after it was counted, if the hit has none. */
static __always_inline int find_key(struct probe_record* record, const struct span_role* role,
                                    __u32 left_by, struct span_key* key) {
  __u32 flags = role->flags;
  key->span = role->span;
  key->process = record->pid;
  key->value = record->tid;
  key->thread = flags & KEY_OF_THREAD ? record->tid : 0;
  key->unused = 0;
  struct reading_result* result = find_result(record, role->key);
  if ((role->key && (!result || result->status < 0)) ||
      ((flags & (RETURNED_KEY | ONLY_IF_ZERO)) && left_by == LEFT_BY_TAIL_CALL)) {
    count_span(key->span, SPANS_NO_KEY);
    return 0;
  }
  if (role->key && result) key->value = result->value;
  if (((flags & NO_NULL_KEY) && key->value == 0) ||
      ((flags & NO_NEGATIVE_KEY) && (__s64)key->value < 0) ||
      ((flags & ONLY_IF_ZERO) && (__u32)record->return_value != 0)) {
    count_span(key->span, SPANS_NULL_KEY);
    return 0;
  }
  return 1;
}

/* The time is last, so that the span excludes this program. The hit that removes a beginning from
 * the map counts it: all that began have ended, begun again, or are open. */
static __always_inline void begin_span(struct probe_record* record, struct span_key* key) {
  record->time_ns = bpf_ktime_get_ns();
  if (settings.waits_offset) note_waits(record);
  /* Before Linux 6.4 (d7ba4cc900bf) the result is not sign-extended to 64 bits. */
  int error = (int)bpf_map_update_elem(&spans, key, record, BPF_NOEXIST);
  if (error == -17) { /* EEXIST */
    if (bpf_map_delete_elem(&spans, key) == 0) count_span(key->span, SPANS_REPLACED);
    error = (int)bpf_map_update_elem(&spans, key, record, BPF_NOEXIST);
    if (error == -17) { /* it began at the same time in another thread, which comes later */
      count_span(key->span, SPANS_REPLACED);
      error = 0;
    }
  }
  count_span(key->span, error ? SPANS_FULL : SPANS_BEGUN);
}

/* Finds the hit that began the span, removes it from the map, and copies it into the record.
 * Returns 0 if the span is not open. Only one of two hits that end a span at the same time removes
 * it; an entry that was used again meanwhile has another key. */
static __always_inline int take_begin(struct probe_record* record, struct span_key* key) {
  struct probe_record* known = bpf_map_lookup_elem(&spans, key);
  struct probe_record* begin = get_begin(record);
  if (known && bpf_probe_read_kernel(begin, settings.hit_size, known) == 0) {
    struct span_part* part = get_span_part(begin);
    if (part->key == key->value && part->span == key->span && begin->pid == key->process &&
        (key->thread == 0 || begin->tid == key->thread) && bpf_map_delete_elem(&spans, key) == 0)
      return 1;
  }
  count_span(key->span, SPANS_NO_BEGIN);
  return 0;
}

/* Measures a time of a span. Those that only threads have are known of spans within one. */
static __always_inline void measure_span(__u32 span, struct probe_record* record, __u64 duration) {
  __u64 waited = WAITS_UNKNOWN;
  __u64 time = 0;
  __u32 which = settings.measured_time;
  if (settings.waits_offset && record->tid == get_begin(record)->tid) {
    struct call_waits* began = waits_of(get_begin(record));
    struct call_waits* ended = waits_of(record);
    if (began->waited_ns != WAITS_UNKNOWN && ended->waited_ns != WAITS_UNKNOWN)
      waited = ended->waited_ns - began->waited_ns;
    if (waited >= SWITCH_MISSED) waited = WAITS_UNKNOWN;
    int is_known = waited != WAITS_UNKNOWN;
    if (is_known && which >= TIME_PREEMPTED && (settings.flags & TRACKS_CAUSES)) {
      waited = ended->caused_ns[which - TIME_PREEMPTED] - began->caused_ns[which - TIME_PREEMPTED];
      which = TIME_WAITING; /* it is a part of it */
    }
    if (is_known && waited > duration) waited = duration;
  }
  if (find_time(which, duration, waited, &time)) measure(span, time);
}

/* Ends a span with the hit in `record`, and measures it. `decision`: about the conditions on the
 * end. Returns whether it is sent. */
static __always_inline int end_span(struct probe_record* record, struct span_key* key, __u64 number,
                                    __u32 phase, __u64 now, __u32 decision) {
  if (!take_begin(record, key)) return 0;
  count_span(key->span, SPANS_ENDED);
  __u64 duration = now - get_begin(record)->time_ns;
  if (duration < settings.min_latency_ns) {
    count_span(key->span, SPANS_EXCLUDED);
    return 0;
  }
  if ((settings.max_duration_ns && duration > settings.max_duration_ns) || !is_decided(decision)) {
    count_span(key->span, SPANS_UNSELECTED);
    return 0;
  }
  if (is_left_out(number, phase)) return 0;
  if (settings.flags & MEASURE_LATENCY) measure_span(key->span, record, duration);
  return (settings.flags & SEND_RECORDS) != 0;
}
