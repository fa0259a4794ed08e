/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Why threads wait (TRACKS_CAUSES), and the longest wait of each call with its stack, or all of
 * them (sends_waits). A thread has a level for each of its open calls. Its own uprobe programs open
 * and close them; the program at sched_switch keeps the longest wait of the innermost one, which
 * passes to the level around it when it is closed. Waits lie in buffers after the thread's entry,
 * and levels exchange their numbers. With sends_waits there is only the record of the wait under
 * way. */
#pragma once

#include "stacks.h"
#include "waits.h"

static __always_inline struct kept_wait* find_kept_wait(struct thread_causes* thread,
                                                        __u64 number) {
  HIDE_VALUE(number);
  if (number > MAX_OPEN_LEVELS) return 0; /* NO_WAIT */
  HIDE_VALUE(number);
  return (void*)(thread + 1) + number * settings.kept_wait_size;
}

/* With sends_waits: returns the record of the wait under way. */
static __always_inline struct probe_record* wait_record(struct thread_causes* thread) {
  return (void*)(thread + 1);
}

/* Returns the wait under way. */
static __always_inline struct kept_wait* find_pending_wait(struct thread_causes* thread) {
  if (settings.sends_waits) return (void*)(wait_record(thread) + 1);
  return find_kept_wait(thread, thread->pending);
}

/* Returns the innermost open level; null if there is none. */
static __always_inline struct open_level* find_level(struct thread_causes* thread) {
  __u64 index = (__u64)thread->depth - 1;
  HIDE_VALUE(index);
  if (index >= MAX_OPEN_LEVELS) return 0;
  HIDE_VALUE(index);
  return &thread->levels[index];
}

/* Closes the innermost level. The longer wait passes to the one around it. */
static __always_inline void close_level(struct thread_causes* thread) {
  struct open_level* inner = find_level(thread);
  if (!inner) return; /* impossible */
  thread->depth--;
  struct open_level* outer = find_level(thread);
  if (!outer || settings.sends_waits) return;
  __u32 number = inner->longest;
  struct kept_wait* wait = find_kept_wait(thread, number);
  struct kept_wait* longest = find_kept_wait(thread, outer->longest);
  if (!wait || !longest || wait->duration_ns <= longest->duration_ns) return;
  inner->longest = outer->longest;
  outer->longest = number;
}

/* Closes those whose calls were left without a return: their stack pointers are below `end`. */
static __always_inline void close_left_levels(struct thread_causes* thread, __u64 end) {
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_OPEN_LEVELS; i++) {
    struct open_level* level = find_level(thread);
    if (!level || level->stack_pointer >= end) break;
    close_level(thread);
  }
}

/* The program at sched_switch does not see levels that are being changed. */
#define BEGIN_CHANGE(thread) (*(volatile __u32*)&(thread)->is_busy = 1)
#define END_CHANGE(thread) (*(volatile __u32*)&(thread)->is_busy = 0)

static __always_inline void open_call_level(struct thread_causes* thread,
                                            struct probe_record* record, __u32 probe) {
  BEGIN_CHANGE(thread);
  thread->registers = *(__u64*)record->comm;
  close_left_levels(thread, record->return_value + 1);
  if (thread->depth == 0) {
#pragma unroll
    for (__u32 i = 0; i < MAX_OPEN_LEVELS; i++) thread->levels[i].longest = i;
    thread->pending = MAX_OPEN_LEVELS;
  }
  if (thread->depth < MAX_OPEN_LEVELS)
    thread->depth++;
  else
    goto done;
  struct open_level* level = find_level(thread);
  if (!level) goto done; /* impossible */
  level->stack_pointer = record->return_value;
  level->began_ns = record->time_ns;
  level->probe = probe;
  if (settings.sends_waits) goto done;
  struct kept_wait* longest = find_kept_wait(thread, level->longest);
  if (longest) longest->duration_ns = 0;
done:
  END_CHANGE(thread);
}

/* Finds the longest wait of a call, and closes its level. The wait stays as it is until
 * end_report(). It is not known of a call nested too deep, if the shared level has a longer one
 * from before. */
static __always_inline void close_call_level(struct thread_causes* thread,
                                             struct probe_record* record) {
  BEGIN_CHANGE(thread);
  thread->reported = NO_WAIT;
  close_left_levels(thread, record->return_value);
  struct open_level* level = find_level(thread);
  if (!level) return;
  struct kept_wait* wait = settings.longest_offset ? find_kept_wait(thread, level->longest) : 0;
  if (wait && wait->duration_ns && wait->left_ns >= record->time_ns)
    thread->reported = level->longest;
  if (level->began_ns == record->time_ns) close_level(thread);
}

/* Returns the longest wait of the call that is reported; null if there is none. A function of its
 * own, for the stack of its callers. */
static __noinline struct kept_wait* find_reported_wait(void) {
  struct thread_causes* thread = (void*)find_thread_waits();
  return thread ? find_kept_wait(thread, thread->reported) : 0;
}

/* After the report of a call. */
static __noinline int end_report(void) {
  struct thread_causes* thread = (void*)find_thread_waits();
  if (!thread) return 0;
  thread->reported = NO_WAIT;
  END_CHANGE(thread);
  return 0;
}

/* Does what end_waits() does, with the causes and the longest wait. It is not inlined, because the
 * stack of its callers has no space for it. */
static __noinline int end_causes(struct probe_record* record, __u64 now) {
  struct call_waits* waits = waits_of(record);
  struct thread_causes* thread = (void*)find_thread_waits();
  if (waits->waited_ns == WAITS_UNKNOWN || record->tid != (__u32)current_ids() || !thread) {
    waits->waited_ns = WAITS_UNKNOWN;
    return 0;
  }
  __u64 waited = take_causes(thread, waits, now, 1);
  int is_known = waited < SWITCH_MISSED;
  __u64 excess = waited > record->latency_ns ? waited - record->latency_ns : 0;
  /* The clock is read at slightly different times. */
#pragma unroll
  for (__u32 cause = 0; cause < WAIT_CAUSES; cause++) {
    __u64 part = waits->caused_ns[cause] < excess ? waits->caused_ns[cause] : excess;
    waits->caused_ns[cause] -= part;
    excess -= part;
    waited -= part;
  }
  waits->waited_ns = is_known ? waited : WAITS_UNKNOWN;
  if (settings.kept_wait_size) close_call_level(thread, record);
  if (!is_known) thread->reported = NO_WAIT;
  if (settings.sends_waits) END_CHANGE(thread);
  return 0;
}

/* A thread that can go on may also leave its CPU without being preempted by the kernel's own code:
 * on its way back to user space, or by sched_yield(). */
static __always_inline __u32 find_cause(struct bpf_raw_tracepoint_args* context) {
  if (context->args[0] & 0xff) return WAIT_PREEMPTED;
  __u32 state = 0;
  if (settings.task_state.has_prev_state)
    state = (__u32)context->args[3];
  else
    state = read_word((void*)context->args[1] + settings.task_state.state);
  if (state == 0) return WAIT_PREEMPTED;
  return state & 2 ? WAIT_BLOCKED : WAIT_SLEPT; /* TASK_UNINTERRUPTIBLE, also in TASK_KILLABLE */
}

/* Keeps registers and stack of the running thread, which leaves its CPU. */
static __always_inline void keep_wait(struct thread_causes* thread) {
  thread->is_kept = 0;
  if (settings.kept_wait_size == 0 || thread->depth == 0 || thread->is_busy) return;
  struct kept_wait* wait = find_pending_wait(thread);
  if (!wait) return; /* impossible */
  struct registers* regs = (void*)(wait + 1);
  wait->stack_size = 0;
  thread->is_kept = 1;
  if (bpf_probe_read_kernel(regs, sizeof(*regs), (void*)thread->registers) != 0) return;
  wait->stack_address = STACK_POINTER(regs);
  if (settings.wait_returns_offset)
    read_replaced_returns((void*)wait + settings.wait_returns_offset);
  void* stack = (void*)wait + settings.wait_stack_offset;
  wait->stack_size = read_resident(stack, settings.stack_size, wait->stack_address) == 0
                         ? settings.stack_size
                         : copy_user(stack, wait->stack_address);
}

/* The wait under way becomes that of its level if it is longer. */
static __always_inline void keep_longest(struct thread_causes* thread,
                                         const struct kept_wait* wait) {
  struct open_level* level = find_level(thread);
  if (!level) return; /* impossible */
  __u32 number = thread->pending;
  struct kept_wait* longest = find_kept_wait(thread, level->longest);
  if (!longest || wait->duration_ns <= longest->duration_ns) return;
  thread->pending = level->longest;
  level->longest = number;
}

/* A thread has got a CPU after a wait. */
static __always_inline void end_wait(struct thread_causes* thread) {
  __u64 since = thread->waits.came_ns;
  __u64 now = bpf_ktime_get_ns();
  __u64 duration = now - thread->waits.left_ns;
  __u32 cause = thread->cause;
  thread->waits.came_ns = now;
  if (cause == WAIT_PREEMPTED) thread->caused_ns[WAIT_PREEMPTED] += duration;
  if (cause == WAIT_SLEPT) thread->caused_ns[WAIT_SLEPT] += duration;
  if (cause == WAIT_BLOCKED) thread->caused_ns[WAIT_BLOCKED] += duration;
  if (settings.kept_wait_size == 0 || !thread->is_kept) return;
  struct kept_wait* wait = find_pending_wait(thread);
  if (!wait) return; /* impossible */
  wait->left_ns = thread->waits.left_ns;
  wait->duration_ns = duration;
  wait->cause = cause;
  int is_woken = cause != WAIT_PREEMPTED && thread->woken_ns > since;
  wait->waker = is_woken ? thread->waker : 0;
  __builtin_memcpy(wait->waker_comm, thread->waker_comm, sizeof(wait->waker_comm));
  if (!is_woken) wait->waker_comm[0] = 0;
  if (settings.longest_offset) keep_longest(thread, wait);
}
