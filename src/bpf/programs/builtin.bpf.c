// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
// The built-in program. A hit is filtered, counted, sampled and rate-limited, measured, and
// recorded, in this order. Counts are exact even if the buffer is full.
//
// `settings` is frozen before the program is loaded, so the verifier removes the code of unused
// features. What differs between probes is data: each probe has a point_plan in a map. The
// program is compiled in five combinations of three macros, because a kernel rejects unknown
// helpers even in code that never runs: WITHOUT_COOKIE for Linux before 5.15 and for mechanisms
// without cookies, WITHOUT_RING for Linux before 5.8, SLEEPABLE for runs that read memory which may
// not be resident (user_memory.h).
#include "calls.h"
#include "exits.h"
#include "groups.h"
#include "limits.h"
#include "off_cpu.h"
#include "spans.h"
#include "stacks.h"
#include "tail_calls.h"
#include "thread_stack.h"
#include "waits.h"

#if defined(WITHOUT_RING) || defined(SLEEPABLE)
#define IN_CALLS 1 // all records are built in `calls`
#endif

// Whether the filters of process, user and control group match.
static __always_inline int passes_filters(void) {
  if ((settings.flags & FILTER_BY_USER) && (__u32)bpf_get_current_uid_gid() != settings.user)
    return 0;
  if (settings.flags & FILTER_BY_PROCESS) {
    __u32 process = current_ids() >> 32;
    if (!bpf_map_lookup_elem(&processes, &process)) return 0;
  }
#ifndef SLEEPABLE // sleepable programs may not use a map of control groups
  if ((settings.flags & FILTER_BY_CGROUP) && bpf_current_task_under_cgroup(&cgroups, 0) != 1)
    return 0;
#endif
  return 1;
}

// Whether the process is outside of uprobectl's pid namespace.
static __always_inline int has_no_ids(void) { return settings.ids.inode && current_ids() == 0; }

// Returns whether the hit is in a process that is not traced, and counts it if so.
static __always_inline int count_if_untraced(__u64 number, __u32 phase) {
  if (has_no_ids()) {
    count(number, phase == PHASE_RETURN ? COUNTED_INVISIBLE_RETURNS : COUNTED_INVISIBLE);
    return 1;
  }
  if (passes_filters()) return 0;
  count(number, phase == PHASE_RETURN ? COUNTED_FILTERED_RETURNS : COUNTED_FILTERED);
  return 1;
}

static __always_inline __u64 probe_cookie(void* context) {
#ifdef WITHOUT_COOKIE
  (void)context;
  // Each probe runs a copy of the program, in which the number of the probe replaces this constant.
  __u64 number;
  asm volatile("%0 = " PROBE_NUMBER_PLACEHOLDER_TEXT " ll" : "=r"(number));
  return number;
#else
  return bpf_get_attach_cookie(context);
#endif
}

static __always_inline __u64 probe_number(struct registers* regs) {
  if (settings.flags & ONLY_PROBE) return 0;
  __u64 cookie = probe_cookie(regs);
  if (!(cookie & SHARED_COOKIE)) return cookie;
  __u32 key = PROBE_NUMBER_KEY(cookie, PROBED_ADDRESS(regs));
  __u32* number = bpf_map_lookup_elem(&probe_numbers, &key);
  return number ? *number : cookie;
}

static __always_inline void fill_header(struct probe_record* record, __u64 number, __u32 kind,
                                        __u32 left_by) {
  __u64 pid_tgid = current_ids();
  record->cookie = number;
  record->pid = pid_tgid >> 32;
  record->tid = (__u32)pid_tgid;
  record->cpu = bpf_get_smp_processor_id();
  record->kind = kind;
  record->left_by = left_by;
  bpf_get_current_comm(record->comm, sizeof(record->comm));
}

// Stores the values of the entry or the return.
static __always_inline void fill_values(struct probe_record* record, struct registers* regs,
                                        const struct point_plan* plan, __u32 phase) {
  if (!has(plan, SIX_ARGUMENTS)) {
    if (settings.max_readings > 0 && plan) read_all(record, regs, plan, phase);
  } else if (phase == PHASE_ENTRY) {
    __u64* values = (__u64*)(record + 1);
    values[0] = ARGUMENT_0(regs);
    values[1] = ARGUMENT_1(regs);
    values[2] = ARGUMENT_2(regs);
    values[3] = ARGUMENT_3(regs);
    values[4] = ARGUMENT_4(regs);
    values[5] = ARGUMENT_5(regs);
  }
  if (phase == PHASE_RETURN) record->return_value = RETURN_VALUE(regs);
}

static __always_inline void fill_registers(struct probe_record* record, struct registers* regs) {
  if (settings.registers_offset == 0) return;
  struct registers* copy = (void*)record + settings.registers_offset;
  __builtin_memcpy(copy, regs, sizeof(*copy));
}

static __always_inline void fill_position(struct probe_record* record, struct registers* regs,
                                          const struct point_plan* plan, __u64 popped) {
  if (settings.position_offset == 0) return;
  struct call_position* position = (void*)record + settings.position_offset;
  struct call_key key = make_call_key(regs, plan, 0, popped);
  position->stack_pointer = key.goroutine ? -key.stack_pointer : key.stack_pointer;
  position->goroutine = key.goroutine;
  position->lost_before = lost_before();
}

#ifndef WITHOUT_RING
static __always_inline __u64 wakeup_flag(void) {
  __u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
  return waiting >= WAKEUP_WATERMARK ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline void submit(struct probe_record* record) {
  bpf_ringbuf_submit(record, wakeup_flag());
}

// Sends a record from `calls` with the stack, which does not fit into the map.
static __always_inline void send_with_stack(struct registers* regs, const struct point_plan* plan,
                                            struct probe_record* kept) {
#ifdef SLEEPABLE
  load_stack(regs, plan);
#endif
  struct probe_record* record = bpf_ringbuf_reserve(&records, settings.record_size, 0);
  if (!record) {
    count_lost_record(LOST_BUFFER_FULL);
    return;
  }
  bpf_probe_read_kernel(record, settings.kept_size, kept);
  copy_stack(record, regs, plan);
  submit(record);
}

// Sends the record of a call from `calls`, with the longest wait of the call if there is one. The
// wait is not in the map. Not inlined, because the callers have no stack left.
static __noinline int send_with_wait(struct probe_record* kept) {
  struct kept_wait* wait = find_reported_wait();
  if (!wait) {
    if (bpf_ringbuf_output(&records, kept, settings.kept_size, wakeup_flag()) != 0)
      count_lost_record(LOST_BUFFER_FULL);
    return 0;
  }
  struct probe_record* record = bpf_ringbuf_reserve(&records, settings.record_size, 0);
  if (!record) {
    count_lost_record(LOST_BUFFER_FULL);
    return 0;
  }
  bpf_probe_read_kernel(record, settings.kept_size, kept);
  bpf_probe_read_kernel((void*)record + settings.longest_offset, settings.kept_wait_size, wait);
  submit(record);
  return 0;
}
#endif

#ifdef WITHOUT_RING
// Copies the longest wait of a call into its record. Not inlined, because the callers have no stack
// left.
static __noinline int copy_longest_wait(struct probe_record* record) {
  struct kept_wait* wait = find_reported_wait();
  struct kept_wait* longest = (void*)record + settings.longest_offset;
  longest->duration_ns = 0;
  if (wait) bpf_probe_read_kernel(longest, settings.kept_wait_size, wait);
  return 0;
}
#endif

// Sends a record from `calls`.
static __always_inline void send_copy(struct registers* regs, const struct point_plan* plan,
                                      struct probe_record* record) {
#ifdef WITHOUT_RING
  (void)plan;
  if (settings.longest_offset) copy_longest_wait(record);
  // The wakeup_watermark of the perf events limits the wakeups.
  if (bpf_perf_event_output(regs, &records, BPF_F_CURRENT_CPU, record, settings.kept_size) != 0)
    count_lost_record(LOST_BUFFER_FULL);
#else
  if (has(plan, COPY_STACK)) {
    send_with_stack(regs, plan, record);
    return;
  }
  if (settings.longest_offset) {
    send_with_wait(record);
    return;
  }
  if (bpf_ringbuf_output(&records, record, settings.kept_size, wakeup_flag()) != 0)
    count_lost_record(LOST_BUFFER_FULL);
#endif
}

// Stops all threads of the hit's process before they run in user space again. The helper exists
// since Linux 5.3, so that the program for the oldest kernels does not use it.
static __always_inline void stop_process(void) {
#if !defined(WITHOUT_COOKIE) || !defined(WITHOUT_RING)
  const __u32 stop_signal = 19; // SIGSTOP of x86 and arm
  if (settings.flags & STOPS_PROCESS) bpf_send_signal(stop_signal);
#endif
}

// Sends a record of an entry or of a return.
static __always_inline void send(struct registers* regs, const struct point_plan* plan,
                                 __u64 number, __u32 phase, __u64 popped, __u32 left_by) {
  __u64 now = bpf_ktime_get_ns();
  stop_process();
#ifdef IN_CALLS
  struct call_key key = make_call_key(regs, plan, number, 0);
  int existed;
  struct probe_record* record = open_call(&key, &existed);
  if (!record) {
    count_lost_record(LOST_CALLS_FULL);
    return;
  }
#else
  struct probe_record* record = bpf_ringbuf_reserve(&records, settings.record_size, 0);
  if (!record) {
    count_lost_record(LOST_BUFFER_FULL);
    return;
  }
#endif
  fill_header(record, number, phase == PHASE_RETURN ? RECORD_RETURN : RECORD_ENTRY, left_by);
  record->time_ns = now;
  fill_values(record, regs, plan, phase);
  fill_registers(record, regs);
  fill_position(record, regs, plan, popped);
  if (settings.waits_offset) note_waits(record);
  init_stack(record, regs, plan, phase, left_by);
  walk_stack(record, regs);
#ifdef IN_CALLS
  send_copy(regs, plan, record);
  close_call(&key);
#else
  copy_stack(record, regs, plan);
  submit(record);
#endif
}

// Counts an entry or a return by its values. Its key is built in `calls`.
static __always_inline void count_values(struct registers* regs, const struct point_plan* plan,
                                         __u64 number, __u32 phase, __u32 left_by) {
  if (settings.group_by == 0) return;
  struct call_key key = make_call_key(regs, plan, number, 0);
  int existed;
  struct probe_record* record = open_call(&key, &existed);
  if (!record) {
    count_lost(LOST_CALLS_FULL);
    return;
  }
  fill_values(record, regs, plan, phase);
  count_group(record, regs, plan, number, phase == PHASE_RETURN ? RECORD_RETURN : RECORD_ENTRY,
              left_by);
  close_call(&key);
}

static __always_inline void count_no_return(__u64 number) {
  count_lost(LOST_NO_RETURN);
  count(number, COUNTED_NO_RETURN);
}

// Completes a call with the waits of its thread. Not inlined, because the caller has no stack left.
static __noinline int complete_with_waits(struct probe_record* record, struct call_key* key) {
  struct thread_waits* waits = find_thread_waits();
  complete_call(record, key);
  store_waits(waits, record);
  if (settings.kept_wait_size && waits)
    open_call_level((struct thread_causes*)waits, record, key->probe);
  return 0;
}

// Saves the values of an entry until its return. Until then, some members of the record have
// another meaning: see the comments below.
static __always_inline void begin_call(struct registers* regs, const struct point_plan* plan,
                                       __u64 number, __u64 known) {
  struct call_key key = make_call_key(regs, plan, number, 0);
  int existed;
  struct probe_record* record = open_call(&key, &existed);
  if (!record) {
    count_lost(LOST_CALLS_FULL);
    count_lost(SKIPPED_CALLS);
    return;
  }
  // comm holds the address of the registers until open_call_level().
  if (settings.kept_wait_size) *(__u64*)record->comm = (__u64)regs;
  if (existed && is_restarted(regs, &key, record->latency_ns))
    uncount(number, COUNTED_ENTRIES);
  else if (existed)
    count_no_return(number);
  record->latency_ns = stack_end(regs, &key);             // holds the stack end until the return
  if (filters_use(FILTERS_CALLS)) record->cookie = known; // holds the known terms until the return
  if ((settings.flags & SEND_RECORDS) || settings.group_by != 0 || filters_use(FILTERS_KEPT))
    fill_values(record, regs, plan, PHASE_ENTRY);
  if ((settings.flags & SEND_RECORDS) || settings.group_by != 0) {
    fill_registers(record, regs);
    init_stack(record, regs, plan, PHASE_ENTRY, LEFT_UNKNOWN);
    walk_stack(record, regs);
  }
  if (settings.waits_offset)
    complete_with_waits(record, &key);
  else
    complete_call(record, &key);
}

// Skips a call that a filter excludes. Removes an earlier call with the same key, which ended
// without a return, so that this call's return is not paired with it.
static __always_inline void skip_call(struct registers* regs, const struct point_plan* plan,
                                      __u64 number) {
  struct call_key key = make_call_key(regs, plan, number, 0);
  if (close_call(&key)) count_no_return(number);
  count_lost(SKIPPED_CALLS);
}

// Counts, measures and sends a call that has returned. `record` is its entry in `calls`.
static __always_inline void report_call(struct registers* regs, const struct point_plan* plan,
                                        __u64 number, __u64 popped, __u32 left_by,
                                        struct probe_record* record, __u64 now) {
  __u64 latency = now - record->time_ns;
  record->latency_ns = latency;
  if (settings.flags & TRACKS_CAUSES)
    end_causes(record, now);
  else if (settings.waits_offset)
    end_waits(record, now);
  if (latency < settings.min_latency_ns ||
      !filter_holds(regs, plan, PHASE_RETURN, left_by, record->cookie, record)) {
    count(number, COUNTED_EXCLUDED);
    return;
  }
  count(number, COUNTED_RETURNS);
  if (limits_at_return(plan) && is_left_out(number, PHASE_RETURN)) return;
  count_process(number, PHASE_RETURN);
  count_stack(regs, plan, number, PHASE_RETURN, left_by);
  if (settings.flags & MEASURE_LATENCY) measure_time(number, record);
  measure_reading(regs, plan, number, PHASE_RETURN, left_by);
  if (!(settings.flags & SEND_RECORDS) && settings.group_by == 0) return;
  fill_values(record, regs, plan, PHASE_RETURN);
  if (settings.group_by != 0) {
    count_group(record, regs, plan, number, RECORD_CALL, left_by);
    return; // no record is sent
  }
  stop_process();
  fill_header(record, number, RECORD_CALL, left_by);
  record->time_ns = now;
  restore_caller(record, regs, plan, popped);
  send_copy(regs, plan, record);
}

static __always_inline void end_call(struct registers* regs, const struct point_plan* plan,
                                     __u64 number, __u64 popped, __u32 left_by) {
  __u64 now = bpf_ktime_get_ns();
  struct call_key key = make_call_key(regs, plan, number, popped);
  struct probe_record* record = find_open_call(&key);
  if (!record) {
    count(number, COUNTED_UNPAIRED);
    if (!(settings.flags & STARTS_LATER)) count_lost(LOST_NO_ENTRY);
    return;
  }
  report_call(regs, plan, number, popped, left_by, record, now);
  if (settings.longest_offset) end_report();
  close_call(&key);
}

// Makes a mode of WALK: whether the hit begins spans, and the decision about the spans that it
// ends.
#define SPAN_MODE(begins, ends) ((__u32)(begins) | ((ends) & 7) << 1)

// Ends and begins the spans of a hit, whose values and time are in `record`. `how` is made by WALK,
// with SPAN_MODE. Not inlined, because the callers have no stack left. Returns 0.
static __noinline int run_roles(struct registers* regs, const struct point_plan* plan,
                                struct probe_record* record, __u32 how) {
  __u32 phase = WALK_PHASE(how) & 1; // an index, as the verifier sees it
  __u32 left_by = WALK_LEFT_BY(how);
  __u64 now = record->time_ns;
  keep_stack(record, regs, plan, phase, left_by);
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_SPAN_ROLES; i++) {
    if (i >= settings.max_roles || i >= plan->role_count) break;
    const struct span_role* role = &plan->roles[i];
    int ends = role->flags & ENDS_SPAN;
    struct span_key key;
    if (role->phase != phase || (!ends && !(WALK_MODE(how) & 1))) continue;
    if (!find_key(record, role, left_by, &key)) continue;
    struct span_part* part = get_span_part(record);
    part->key = key.value;
    part->span = key.span;
    record->time_ns = now;
    if (!ends)
      begin_span(record, &key);
    else if (end_span(record, &key, record->cookie, phase, now, WALK_MODE(how) >> 1))
      send_copy(regs, plan, record);
  }
  return 0;
}

// The entry of a point with spans. The record stays open until the return.
static __always_inline int at_span_entry(struct registers* regs, const struct point_plan* plan,
                                         __u64 number) {
  __u64 now = bpf_ktime_get_ns();
  if (!plan) return 0; // impossible
  count(number, COUNTED_ENTRIES);
  __u64 known = 0;
  int begins = filter_holds(regs, plan, PHASE_ENTRY, LEFT_UNKNOWN, 0, 0) &&
               collect_terms(regs, plan, &known);
  if (!begins) count(number, COUNTED_EXCLUDED);
  __u32 mode = SPAN_MODE(begins, decide_ends(regs, plan, PHASE_ENTRY, LEFT_UNKNOWN, 0, 0));
  __u64 known_of_ends = collect_end_terms(regs, plan);
  int keeps = plan->pairs_calls;
  if (keeps && is_nested_too_deep()) {
    count_lost(LOST_NESTED);
    keeps = 0;
  }
  struct call_key key = make_call_key(regs, plan, number, 0);
  int existed;
  struct probe_record* record = open_call(&key, &existed);
  if (!record) {
    count_lost(LOST_CALLS_FULL);
    if (keeps) count_lost(SKIPPED_CALLS);
    return 0;
  }
  if (existed && plan->pairs_calls) count_no_return(number);
  fill_header(record, number, RECORD_ENTRY, LEFT_UNKNOWN);
  fill_values(record, regs, plan, PHASE_ENTRY);
  fill_registers(record, regs);
  record->time_ns = now;
  if (settings.waits_offset) note_waits(record);
  run_roles(regs, plan, record, WALK(mode, PHASE_ENTRY, LEFT_UNKNOWN));
  if (!keeps) {
    close_call(&key);
    return 0;
  }
  // Until the return, cookie and comm hold the known terms of the filters, and left_by the mode.
  if (filters_use(FILTERS_CALLS)) {
    record->cookie = known;
    *(__u64*)record->comm = known_of_ends;
  }
  record->left_by = (__u16)mode;
  complete_call(record, &key);
  return 0;
}

static __always_inline int at_span_return(struct registers* regs, const struct point_plan* plan,
                                          __u64 number, __u64 popped, __u32 left_by) {
  __u64 now = bpf_ktime_get_ns();
  struct call_key key = make_call_key(regs, plan, number, popped);
  struct probe_record* record = find_open_call(&key);
  if (!plan || !record) {
    count(number, COUNTED_UNPAIRED);
    if (!(settings.flags & STARTS_LATER)) count_lost(LOST_NO_ENTRY);
    return 0;
  }
  count(number, COUNTED_RETURNS);
  __u32 mode = record->left_by;
  if ((mode & 1) && !filter_holds(regs, plan, PHASE_RETURN, left_by, record->cookie, record)) {
    count(number, COUNTED_EXCLUDED);
    mode &= ~1U;
  }
  if (mode >> 1 == TERM_TRUE)
    mode = SPAN_MODE(mode & 1,
                     decide_ends(regs, plan, PHASE_RETURN, left_by, *(__u64*)record->comm, record));
  fill_values(record, regs, plan, PHASE_RETURN);
  fill_header(record, number, RECORD_CALL, left_by);
  record->latency_ns = now - record->time_ns;
  record->time_ns = now;
  if (settings.waits_offset) note_waits(record);
  run_roles(regs, plan, record, WALK(mode, PHASE_RETURN, left_by));
  close_call(&key);
  return 0;
}

// Filters, counts and measures an entry. Returns whether the entry itself is sent. With PAIR_CALLS
// it is not: the call is sent at its return.
static __always_inline int takes_entry(struct registers* regs, const struct point_plan* plan,
                                       __u64 number) {
  __u64 known = 0;
  if (!filter_holds(regs, plan, PHASE_ENTRY, LEFT_UNKNOWN, 0, 0) ||
      !collect_terms(regs, plan, &known)) {
    count(number, COUNTED_EXCLUDED);
    if (settings.flags & PAIR_CALLS) skip_call(regs, plan, number);
    return 0;
  }
  count(number, COUNTED_ENTRIES);
  if (is_nested_too_deep()) {
    count_lost(LOST_NESTED);
    if (settings.flags & PAIR_CALLS) return 0;
  }
  if (!((settings.flags & PAIR_CALLS) && limits_at_return(plan)) &&
      is_left_out(number, PHASE_ENTRY)) {
    if (settings.flags & PAIR_CALLS) skip_call(regs, plan, number);
    return 0;
  }
  if (settings.flags & PAIR_CALLS) {
    begin_call(regs, plan, number, known);
    return 0;
  }
  count_process(number, PHASE_ENTRY);
  count_stack(regs, plan, number, PHASE_ENTRY, LEFT_UNKNOWN);
  measure_reading(regs, plan, number, PHASE_ENTRY, LEFT_UNKNOWN);
  count_values(regs, plan, number, PHASE_ENTRY, LEFT_UNKNOWN);
  return 1;
}

static __always_inline int at_entry(struct registers* regs, __u64 number) {
  if (count_if_untraced(number, PHASE_ENTRY)) return 0;
  if (!update_recording(number, PHASE_ENTRY)) return 0;
  const struct point_plan* plan = find_plan(number);
  if (settings.plan_count > 0 && !plan) return 0; // impossible
  if (has(plan, ONLY_UNTIL))
    count(number, COUNTED_TRIGGERS);
  else if (settings.flags & SPANS)
    return at_span_entry(regs, plan, number);
  else if (!takes_entry(regs, plan, number))
    return 0;
  if (settings.flags & SEND_RECORDS) send(regs, plan, number, PHASE_ENTRY, 0, LEFT_UNKNOWN);
  return 0;
}

// `has_run`: the return has popped the return address, and the instruction pointer is at the
// caller. `raised`: bytes that the stack pointer is raised by before the return.
static __always_inline int at_return(struct registers* regs, __u64 number, int has_run,
                                     __u64 raised, __u32 left_by) {
  if (count_if_untraced(number, PHASE_RETURN)) return 0;
  if (!update_recording(number, PHASE_RETURN)) return 0;
  const struct point_plan* plan = find_plan(number);
  if (settings.plan_count > 0 && !plan) return 0; // impossible
  __u64 popped = has_run ? POPPED_BY_RETURN(pointer_size(plan)) : -raised;
  if (settings.flags & SPANS) return at_span_return(regs, plan, number, popped, left_by);
  if (settings.flags & PAIR_CALLS) {
    end_call(regs, plan, number, popped, left_by);
    return 0;
  }
  if (!filter_holds(regs, plan, PHASE_RETURN, left_by, 0, 0)) {
    count(number, COUNTED_EXCLUDED);
    return 0;
  }
  count(number, COUNTED_RETURNS);
  if (is_left_out(number, PHASE_RETURN)) return 0;
  count_process(number, PHASE_RETURN);
  count_stack(regs, plan, number, PHASE_RETURN, left_by);
  measure_reading(regs, plan, number, PHASE_RETURN, left_by);
  count_values(regs, plan, number, PHASE_RETURN, left_by);
  if (settings.flags & SEND_RECORDS) send(regs, plan, number, PHASE_RETURN, popped, left_by);
  return 0;
}

// Returns whether a call ends at an exit that leaves its function. Not inlined, because the callers
// have no stack left.
static __noinline int follow_tail_call(struct registers* regs, struct exit_rule* rule,
                                       __u32 number) {
  if (rule->role == EXIT_ENDS_CALL) return 1;
  // at_return() counts the hit.
  if (rule->role == EXIT_JUMPS_ON && (has_no_ids() || !passes_filters())) return 1;
  const struct point_plan* plan = find_plan(number);
  if (settings.plan_count > 0 && !plan) return 0; // impossible
  struct call_key key = make_call_key(regs, plan, number, -rule->raises_stack);
  struct jumped_call call = {.return_address = jumped_return_address(regs, plan, rule)};
  if (rule->role == EXIT_JUMPS_ON)
    return !leads_to_callee(regs, rule) ||
           bpf_map_update_elem(&jumped_calls, &key, &call, BPF_ANY) != 0;
  struct jumped_call* known = bpf_map_lookup_elem(&jumped_calls, &key);
  if (!known || !is_same_address(known->return_address, call.return_address)) {
    count(number, COUNTED_ENDED_NO_CALL);
    return 0;
  }
  if (rule->through_slot && leads_to_callee(regs, rule)) return 0;
  bpf_map_delete_elem(&jumped_calls, &key);
  return 1;
}

static __always_inline int at_exit(struct registers* regs, __u64 cookie) {
  __u32 index = cookie >> EXIT_RULE_SHIFT;
  struct exit_rule* rule = bpf_map_lookup_elem(&exits, &index);
  if (!rule || !leaves_function(regs, rule)) return 0;
  if (settings.follows_tail_calls && !follow_tail_call(regs, rule, (__u32)cookie)) return 0;
  return at_return(regs, (__u32)cookie, 0, rule->raises_stack, rule->left_by);
}

SEC("uprobe")
int on_entry(struct registers* regs) {
  stay_on_thread_stack();
  if (!run_state.armed) return 0;
  return at_entry(regs, probe_number(regs));
}

// A uretprobe: the function has returned.
SEC("uprobe")
int on_return(struct registers* regs) {
  stay_on_thread_stack();
  if (!run_state.armed) return 0;
  return at_return(regs, probe_number(regs), 1, 0, LEFT_UNKNOWN);
}

// A uprobe on an instruction that may leave the function and has not run yet.
SEC("uprobe")
int on_exit(struct registers* regs) {
  stay_on_thread_stack();
  if (!run_state.armed) return 0;
  if (!(settings.flags & EXIT_RULES))
    return at_return(regs, probe_number(regs), 0, 0, LEFT_BY_RETURN);
  return at_exit(regs, probe_cookie(regs));
}

// A uprobe on the first instruction of a function, which may also leave it, such as a lone `jmp`.
SEC("uprobe")
int on_entry_and_exit(struct registers* regs) {
  stay_on_thread_stack();
  if (!run_state.armed) return 0;
  at_entry(regs, (__u32)probe_cookie(regs));
  return at_exit(regs, probe_cookie(regs)); // read again: the stack has no room to keep it
}

// A thread leaves a CPU to another one. Arguments of the tracepoint: whether it was preempted, both
// tasks. Other arguments differ between kernels.
SEC("raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args* context) {
  stay_on_thread_stack();
  __u64 task = context->args[1];
  struct thread_waits* leaves = bpf_map_lookup_elem(&thread_waits, &task);
  task = context->args[2];
  struct thread_waits* comes = bpf_map_lookup_elem(&thread_waits, &task);
  if (leaves) begin_to_wait(leaves);
  if (comes && has_waited(comes)) {
    comes->came_ns = bpf_ktime_get_ns();
    comes->waited_ns += comes->came_ns - comes->left_ns;
  }
  return 0;
}

// Describes the running thread, which leaves its CPU, in the record of its wait.
static __always_inline void begin_wait_record(struct thread_causes* thread) {
  struct open_level* level = find_level(thread);
  if (!level) return; // impossible
  fill_header(wait_record(thread), level->probe, RECORD_WAIT, LEFT_UNKNOWN);
}

// Sends the record of a wait that has ended.
static __always_inline void send_wait(void* context, struct thread_causes* thread) {
  if (!run_state.armed) return;
  struct probe_record* record = wait_record(thread);
  record->time_ns = thread->waits.came_ns;
  record->cpu = bpf_get_smp_processor_id();
  __u64 size = sizeof(*record) + settings.kept_wait_size;
#ifdef WITHOUT_RING
  long error = bpf_perf_event_output(context, &records, BPF_F_CURRENT_CPU, record, size);
#else
  (void)context;
  long error = bpf_ringbuf_output(&records, record, size, wakeup_flag());
#endif
  if (error != 0) count_lost(LOST_BUFFER_FULL);
}

// Does what on_switch() does, and also records why the thread waits. The thread that leaves is the
// running one.
SEC("raw_tp/sched_switch")
int on_caused_switch(struct bpf_raw_tracepoint_args* context) {
  stay_on_thread_stack();
  __u64 task = context->args[1];
  struct thread_causes* leaves = bpf_map_lookup_elem(&thread_waits, &task);
  if (leaves) {
    leaves->cause = find_cause(context);
    begin_to_wait(&leaves->waits);
    keep_wait(leaves);
    if (settings.sends_waits && leaves->is_kept) begin_wait_record(leaves);
  }
  task = context->args[2];
  struct thread_causes* comes = bpf_map_lookup_elem(&thread_waits, &task);
  if (!comes || !has_waited(&comes->waits)) return 0;
  end_wait(comes);
  if (settings.sends_waits && comes->is_kept) send_wait(context, comes);
  return 0;
}

// A thread is woken, by the running one or by an interrupt.
SEC("raw_tp/sched_waking")
int on_waking(struct bpf_raw_tracepoint_args* context) {
  stay_on_thread_stack();
  __u64 task = context->args[0];
  struct thread_causes* wakes = bpf_map_lookup_elem(&thread_waits, &task);
  if (!wakes || wakes->depth == 0) return 0;
  wakes->woken_ns = bpf_ktime_get_ns();
  wakes->waker = (__u32)current_ids();
  if (bpf_get_current_pid_tgid() == 0) // an idle CPU
    wakes->waker_comm[0] = 0;
  else
    bpf_get_current_comm(wakes->waker_comm, sizeof(wakes->waker_comm));
  return 0;
}

// A later task may get the same address, so this one is forgotten.
SEC("raw_tp/sched_process_exit")
int on_thread_end(struct bpf_raw_tracepoint_args* context) {
  stay_on_thread_stack();
  __u64 task = context->args[0];
  bpf_map_delete_elem(&thread_waits, &task);
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
