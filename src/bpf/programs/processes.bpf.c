// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
// Maintains the map of traced processes, selected by name or as children of members. A process is
// in the map from before its first instruction until its last thread has ended. The built-in
// program uses the map as its process filter.
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "../processes_record.h"
#include "thread_stack.h"

// The used members of kernel structures. libbpf relocates them by the kernel's BTF (CO-RE).
typedef struct {
  int counter;
} atomic_t;

struct signal_struct {
  atomic_t live; // threads that have not ended
} __attribute__((preserve_access_index));

struct task_struct {
  int pid; // of the thread
  int tgid;
  struct signal_struct* signal;
  char comm[COMM_BYTES];
} __attribute__((preserve_access_index));

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, MAX_PROCESSES);
  __type(key, __u32);   // tgid, pid namespace of uprobectl
  __type(value, __u32); // MEMBER_…
} processes SEC(".maps");

// rename_record, for user space, which also selects processes by argv[0].
struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 64 * 1024);
} renames SEC(".maps");

// Comms of members. The value means nothing.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1);
  __type(key, union process_name);
  __type(value, __u32);
} names SEC(".maps");

const volatile struct process_settings settings = {};
#include "namespace_ids.h"

volatile struct process_losses losses = {};

static __always_inline int matches_name(const union process_name* name) {
  return settings.names && bpf_map_lookup_elem(&names, name);
}

static __noinline __u32 find_process_id(__u64 task) { return find_ids(task) >> 32; }

// Returns the thread group id of a task in uprobectl's pid namespace; 0 if it is not visible there.
static __always_inline __u32 process_id(struct task_struct* task) {
  return settings.ids.inode ? find_process_id((__u64)task) : BPF_CORE_READ(task, tgid);
}

static __always_inline __u32 membership(__u32 tgid) {
  __u32* found = bpf_map_lookup_elem(&processes, &tgid);
  return found ? *found : 0;
}

static __always_inline void set_membership(__u32 tgid, __u32 before, __u32 now) {
  if (now == before) return;
  if (!now)
    bpf_map_delete_elem(&processes, &tgid);
  else if (bpf_map_update_elem(&processes, &tgid, &now, BPF_ANY) != 0)
    __sync_fetch_and_add(&losses.left_out, 1);
}

static __always_inline void send_rename(__u32 tgid, __u32 member, const union process_name* name) {
  struct rename_record* record = bpf_ringbuf_reserve(&renames, sizeof(*record), 0);
  if (!record) {
    __sync_fetch_and_add(&losses.renames, 1);
    return;
  }
  record->tgid = tgid;
  record->member = member;
  __builtin_memcpy(record->comm, name->text, sizeof(record->comm));
  bpf_ringbuf_submit(record, 0); // wakes the reader if it has read all earlier records
}

// Arguments: the task, and its new comm, which is not set yet. Called for prctl(), writes to
// /proc/PID/comm, and execve(), after the calling thread has become the leader.
SEC("raw_tp/task_rename")
int on_rename(struct bpf_raw_tracepoint_args* arguments) {
  stay_on_thread_stack();
  struct task_struct* task = (struct task_struct*)arguments->args[0];
  // Only the leader's comm is the process's.
  if (BPF_CORE_READ(task, pid) != BPF_CORE_READ(task, tgid)) return 0;
  __u32 tgid = process_id(task);
  if (tgid == 0) return 0;

  union process_name name = {};
  bpf_probe_read_kernel_str(name.text, sizeof(name.text), (void*)arguments->args[1]);
  __u32 before = membership(tgid);
  __u32 now = before;
  if (matches_name(&name))
    now |= MEMBER_BY_COMM;
  else if (!settings.follow)
    now &= ~MEMBER_BY_COMM;
  set_membership(tgid, before, now);
  send_rename(tgid, now, &name);
  return 0;
}

// Arguments: the parent and the child, which has not run yet and has the comm of the forking
// thread.
SEC("raw_tp/sched_process_fork")
int on_fork(struct bpf_raw_tracepoint_args* arguments) {
  stay_on_thread_stack();
  struct task_struct* parent = (struct task_struct*)arguments->args[0];
  struct task_struct* child = (struct task_struct*)arguments->args[1];
  if (BPF_CORE_READ(parent, tgid) == BPF_CORE_READ(child, tgid)) return 0; // a thread
  __u32 tgid = process_id(child);
  if (tgid == 0) return 0;

  union process_name name = {};
  BPF_CORE_READ_STR_INTO(&name.text, child, comm);
  __u32 inherited = membership(process_id(parent)); // 0 for a parent that is not visible
  __u32 now = inherited & MEMBER_WHILE_NAMED;       // its arguments are the parent's as well
  if (matches_name(&name)) now |= MEMBER_BY_COMM;
  if (settings.follow && inherited) now |= MEMBER_UNTIL_EXIT;
  // The process was not a member before, unless user space has added a process with this pid that
  // had just ended.
  set_membership(tgid, membership(tgid), now);
  return 0;
}

// Argument: the task, which signal->live no longer counts.
SEC("raw_tp/sched_process_exit")
int on_exit(struct bpf_raw_tracepoint_args* arguments) {
  stay_on_thread_stack();
  struct task_struct* task = (struct task_struct*)arguments->args[0];
  if (BPF_CORE_READ(task, signal, live.counter) != 0) return 0;
  __u32 tgid = process_id(task);
  bpf_map_delete_elem(&processes, &tgid);
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
