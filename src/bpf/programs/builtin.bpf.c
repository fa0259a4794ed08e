// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
// The built-in program. A hit is filtered, counted, left out on purpose or measured and recorded,
// in this order. Counts are exact even if the buffer is full.
//
// `settings` is frozen before the program is loaded, so the verifier removes the code of unused
// features. What differs between probes is data: each probe has a capture_plan in a map. The
// program is compiled five times, because a kernel rejects unknown helpers even in code that never
// runs: WITHOUT_COOKIE for Linux before 5.15 and for mechanisms without cookies, WITHOUT_RING for
// Linux before 5.8, SLEEPABLE for runs that read memory which may not be resident (user_memory.h).
#include "calls.h"
#include "exits.h"
#include "groups.h"
#include "limits.h"
#include "stacks.h"
#include "thread_stack.h"

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
#ifndef SLEEPABLE // its kind of map is not for sleepable programs
  if ((settings.flags & FILTER_BY_CGROUP) && bpf_current_task_under_cgroup(&cgroups, 0) != 1)
    return 0;
#endif
  return 1;
}

/* Counts a hit in a process that is not to be traced, and returns whether it is one. */
static __always_inline int is_of_others(__u64 number) {
  if (settings.ids.inode && current_ids() == 0) {
    count(number, COUNTED_INVISIBLE);
    return 1;
  }
  if (passes_filters()) return 0;
  count(number, COUNTED_FILTERED);
  return 1;
}

static __always_inline __u64 probe_cookie(void* context) {
#ifdef WITHOUT_COOKIE
  (void)context;
  // Each probe runs a copy of the program, in which its number replaces this constant.
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
  __u32 key = PLACE_KEY(cookie, PROBED_ADDRESS(regs));
  __u32* number = bpf_map_lookup_elem(&places, &key);
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
                                        const struct capture_plan* plan, __u32 phase) {
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
                                          const struct capture_plan* plan, __u64 popped) {
  if (settings.position_offset == 0) return;
  struct call_position* position = (void*)record + settings.position_offset;
  struct call_key key = make_call_key(regs, plan, 0, popped);
  position->stack_pointer = key.goroutine ? -key.stack_pointer : key.stack_pointer;
  position->goroutine = key.goroutine;
  position->lost_before = lost_before();
}

#ifndef WITHOUT_RING
static __always_inline void submit(struct probe_record* record) {
  __u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
  bpf_ringbuf_submit(record, waiting >= WAKEUP_WATERMARK ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

// Sends a record from `calls` with the stack, which does not fit into the map.
static __always_inline void send_with_stack(struct registers* regs, const struct capture_plan* plan,
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
#endif

// Sends a record from `calls`.
static __always_inline void send_copy(struct registers* regs, const struct capture_plan* plan,
                                      struct probe_record* record) {
#ifdef WITHOUT_RING
  (void)plan;
  // The wakeup_watermark of the perf events limits the wakeups.
  if (bpf_perf_event_output(regs, &records, BPF_F_CURRENT_CPU, record, settings.kept_size) != 0)
    count_lost_record(LOST_BUFFER_FULL);
#else
  if (has(plan, COPY_STACK)) {
    send_with_stack(regs, plan, record);
    return;
  }
  __u64 waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
  if (bpf_ringbuf_output(&records, record, settings.kept_size,
                         waiting >= WAKEUP_WATERMARK ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP) != 0)
    count_lost_record(LOST_BUFFER_FULL);
#endif
}

// Sends a record of an entry or of a return.
static __always_inline void send(struct registers* regs, const struct capture_plan* plan,
                                 __u64 number, __u32 phase, __u64 popped, __u32 left_by) {
  __u64 now = bpf_ktime_get_ns();
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
static __always_inline void count_values(struct registers* regs, const struct capture_plan* plan,
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
              left_by, 0);
  close_call(&key);
}

static __always_inline void count_no_return(__u64 number) {
  count_lost(LOST_NO_RETURN);
  count(number, COUNTED_NO_RETURN);
}

// Saves the values of an entry until its return.
static __always_inline void begin_call(struct registers* regs, const struct capture_plan* plan,
                                       __u64 number, __u64 known) {
  struct call_key key = make_call_key(regs, plan, number, 0);
  int existed;
  struct probe_record* record = open_call(&key, &existed);
  if (!record) {
    count_lost(LOST_CALLS_FULL);
    count_lost(SKIPPED_CALLS);
    return;
  }
  if (existed && is_restarted(regs, &key, record->latency_ns))
    uncount(number, COUNTED_ENTRIES);
  else if (existed)
    count_no_return(number);
  record->latency_ns = stack_end(regs, &key);             // holds the stack end until the return
  if (filters_use(FILTERS_CALLS)) record->cookie = known; // likewise
  if ((settings.flags & SEND_RECORDS) || settings.group_by != 0) {
    fill_values(record, regs, plan, PHASE_ENTRY);
    fill_registers(record, regs);
    init_stack(record, regs, plan, PHASE_ENTRY, LEFT_UNKNOWN);
    walk_stack(record, regs);
  }
  complete_call(record, &key);
}

// Skips a call that a filter excludes. Removes an earlier call with the same key, which ended
// without a return, so that this call's return is not paired with it.
static __always_inline void skip_call(struct registers* regs, const struct capture_plan* plan,
                                      __u64 number) {
  struct call_key key = make_call_key(regs, plan, number, 0);
  if (close_call(&key)) count_no_return(number);
  count_lost(SKIPPED_CALLS);
}

// Counts, measures and sends a call that has returned. `record` is its entry in `calls`.
static __always_inline void report_call(struct registers* regs, const struct capture_plan* plan,
                                        __u64 number, __u64 popped, __u32 left_by,
                                        struct probe_record* record, __u64 now) {
  __u64 latency = now - record->time_ns;
  if (latency < settings.min_latency_ns ||
      !filter_holds(regs, plan, PHASE_RETURN, left_by, record->cookie, latency)) {
    count(number, COUNTED_EXCLUDED);
    return;
  }
  count(number, COUNTED_RETURNS);
  if (limits_at_return(plan) && is_left_out(number, PHASE_RETURN)) return;
  count_process(number);
  count_stack(regs, plan, number, PHASE_RETURN, left_by);
  if (settings.flags & MEASURE_LATENCY) measure(number, latency);
  measure_reading(regs, plan, number, PHASE_RETURN, left_by);
  if (!(settings.flags & SEND_RECORDS) && settings.group_by == 0) return;
  fill_values(record, regs, plan, PHASE_RETURN);
  if (settings.group_by != 0) {
    count_group(record, regs, plan, number, RECORD_CALL, left_by, latency);
    return; // no record is sent
  }
  fill_header(record, number, RECORD_CALL, left_by);
  record->time_ns = now;
  record->latency_ns = latency;
  restore_caller(record, regs, plan, popped);
  send_copy(regs, plan, record);
}

static __always_inline void end_call(struct registers* regs, const struct capture_plan* plan,
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
  close_call(&key);
}

static __always_inline int at_entry(struct registers* regs, __u64 number) {
  if (is_of_others(number)) return 0;
  if (!is_within_bounds(number, PHASE_ENTRY)) return 0;
  const struct capture_plan* plan = find_plan(number);
  if (settings.plan_count > 0 && !plan) return 0; // impossible
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
  count_process(number);
  count_stack(regs, plan, number, PHASE_ENTRY, LEFT_UNKNOWN);
  measure_reading(regs, plan, number, PHASE_ENTRY, LEFT_UNKNOWN);
  count_values(regs, plan, number, PHASE_ENTRY, LEFT_UNKNOWN);
  if (settings.flags & SEND_RECORDS) send(regs, plan, number, PHASE_ENTRY, 0, LEFT_UNKNOWN);
  return 0;
}

// `has_run`: the return has popped the return address, and the instruction pointer is at the
// caller. `raised`: bytes that the stack pointer is raised by before the return.
static __always_inline int at_return(struct registers* regs, __u64 number, int has_run,
                                     __u64 raised, __u32 left_by) {
  if (is_of_others(number)) return 0;
  if (!is_within_bounds(number, PHASE_RETURN)) return 0;
  const struct capture_plan* plan = find_plan(number);
  if (settings.plan_count > 0 && !plan) return 0; // impossible
  __u64 popped = has_run ? POPPED_BY_RETURN(pointer_size(plan)) : -raised;
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
  count_process(number);
  count_stack(regs, plan, number, PHASE_RETURN, left_by);
  measure_reading(regs, plan, number, PHASE_RETURN, left_by);
  count_values(regs, plan, number, PHASE_RETURN, left_by);
  if (settings.flags & SEND_RECORDS) send(regs, plan, number, PHASE_RETURN, popped, left_by);
  return 0;
}

static __always_inline int at_exit(struct registers* regs, __u64 cookie) {
  __u32 index = cookie >> EXIT_RULE_SHIFT;
  struct exit_rule* rule = bpf_map_lookup_elem(&exits, &index);
  if (!rule || !leaves_function(regs, rule)) return 0;
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
  __u64 cookie = probe_cookie(regs);
  at_entry(regs, (__u32)cookie);
  return at_exit(regs, cookie);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
