/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Leaves hits out on purpose: those before the recording starts and after it stops, those between
 * the samples, and those above the maximum rate. */
#pragma once

#include "maps.h"

/* Instructions that return the previous value exist since Linux 5.12 on x86-64, and since 5.18 on
 * arm64. Programs with cookies run since 5.15, sleepable ones since 6.0. Without these instructions
 * two hits at the same instant may take the same number, and both or none of them is recorded. */
#if defined(SLEEPABLE) || (defined(TARGET_X86_64) && !defined(WITHOUT_COOKIE))
#define HAS_EXCHANGE 1
#endif

static __always_inline __u64 take_number(__u64* next) {
#ifdef HAS_EXCHANGE
  return __sync_fetch_and_add(next, 1);
#else
  __u64 number = *(volatile __u64*)next;
  __sync_fetch_and_add(next, 1);
  return number;
#endif
}

/* Replaces `known` by `wanted`. Returns 0 if another hit was faster. */
static __always_inline int exchange_window(__u64* window, __u64 known, __u64 wanted) {
#ifdef HAS_EXCHANGE
  return __sync_val_compare_and_swap(window, known, wanted) == known;
#else
  if (wanted == known + 1)
    __sync_fetch_and_add(window, 1);
  else
    *(volatile __u64*)window = wanted;
  return 1;
#endif
}

/* Counts one more record in the window. Returns 0 if the window is full. A window begins with its
 * first record. Also returns 0 if other CPUs change the window at each of 16 attempts. */
static __always_inline int fits_window(__u64* window) {
  __u64 now = bpf_ktime_get_ns() / 1000000;
#pragma clang loop unroll(disable)
  for (__u32 attempt = 0; attempt < 16; attempt++) {
    __u64 known = *(volatile __u64*)window;
    __u64 wanted = now << WINDOW_COUNT_BITS | 1;
    /* Another CPU may have begun the window later than `now`. */
    __s64 age = (__s64)(now - (known >> WINDOW_COUNT_BITS));
    if (known && age < (__s64)settings.window_ms) {
      if ((known & MAX_WINDOW_COUNT) >= settings.max_in_window) return 0;
      wanted = known + 1;
    }
    if (exchange_window(window, known, wanted)) return 1;
  }
  return 0;
}

/* Whether this hit, which passed the filters, is left out. */
static __always_inline int is_left_out(__u64 number, __u32 phase) {
  if (settings.sample == 0 && settings.max_in_window == 0) return 0;
  __u32 index = (__u32)number;
  struct limit_state* state = bpf_map_lookup_elem(&limits, &index);
  if (!state) return 0; /* impossible */
  if (settings.sample > 0 && take_number(&state->hits[phase]) % settings.sample != 0) {
    count(number, COUNTED_SAMPLED_OUT);
    return 1;
  }
  if (settings.max_in_window > 0 && !fits_window(&state->window)) {
    count(number, COUNTED_RATE_LIMITED);
    return 1;
  }
  return 0;
}

/* Returns whether sampling and the rate limit apply at the return of a paired call instead of at
 * its entry: only at the return it is known whether the call passes the filters, or whether its
 * entry was seen twice (is_restarted()). */
static __always_inline int limits_at_return(const struct point_plan* plan) {
  if (settings.min_latency_ns > 0 || has(plan, BY_GOROUTINE)) return 1;
  return settings.max_terms > 0 && plan && plan->filters[PHASE_RETURN] != 0;
}

/* Starts or stops the recording if this hit is a trigger, and returns whether the hit is inside the
 * recording. A trigger is the first hit that is recorded, or the last. */
static __always_inline int update_recording(__u64 number, __u32 phase) {
  if (!(settings.flags & HAS_TRIGGERS)) return 1;
  __u32 index = (__u32)number;
  __u32* flags = bpf_map_lookup_elem(&trigger_flags, &index);
  index = 0;
  volatile struct recording_state* run = bpf_map_lookup_elem(&recording_state, &index);
  if (!flags || !run) return 0; /* impossible */
  __u32 started = run->started;
  __u32 stopped = run->stopped;
  if (phase == PHASE_ENTRY && (*flags & (STARTS_RECORDING | STOPS_RECORDING))) {
    count(number, COUNTED_TRIGGERS);
    if (!started && (*flags & STARTS_RECORDING)) {
      run->started = 1;
      started = 1;
    } else if (started && (*flags & STOPS_RECORDING)) {
      run->stopped = 1;
    }
    if (*flags & IS_ONLY_TRIGGER) return 0;
  }
  if (started && !stopped) return 1;
  count(number, phase == PHASE_RETURN ? COUNTED_OUTSIDE_RETURNS : COUNTED_OUTSIDE);
  return 0;
}
