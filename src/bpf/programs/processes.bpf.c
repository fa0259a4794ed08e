// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
// Keeps a map of the processes that are asked for, by name and by descent, from before their first
// instruction until their last thread has ended. Another program looks into the map to know whether
// it runs for one of them.
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "../processes_record.h"

// What is read of the kernel's structures; where it lies is put in when the program is loaded, from
// the kernel's own BTF.
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
  __type(key, __u32);   // tgid, initial pid namespace
  __type(value, __u32); // MEMBER_…
} processes SEC(".maps");

// For user space, which knows processes by their arguments, too.
struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 64 * 1024);
} renames SEC(".maps");

const volatile struct process_settings settings = {};
volatile __u32 missed = 0; // renames that found the buffer full

static __always_inline int is_asked_for(const union process_name* name) {
  for (__u32 i = 0; i < MAX_NAMES; i++) {
    if (i >= settings.names) break;
    if (settings.name[i].words[0] == name->words[0] && settings.name[i].words[1] == name->words[1])
      return 1;
  }
  return 0;
}

static __always_inline __u32 membership(__u32 tgid) {
  __u32* found = bpf_map_lookup_elem(&processes, &tgid);
  return found ? *found : 0;
}

static __always_inline void set_membership(__u32 tgid, __u32 before, __u32 now) {
  if (now == before) return;
  if (now)
    bpf_map_update_elem(&processes, &tgid, &now, BPF_ANY);
  else
    bpf_map_delete_elem(&processes, &tgid);
}

static __always_inline void tell(__u32 tgid, __u32 member, const union process_name* name) {
  struct rename_record* record = bpf_ringbuf_reserve(&renames, sizeof(*record), 0);
  if (!record) {
    __sync_fetch_and_add(&missed, 1);
    return;
  }
  record->tgid = tgid;
  record->member = member;
  __builtin_memcpy(record->comm, name->text, sizeof(record->comm));
  bpf_ringbuf_submit(record, 0); // wakes a reader that has read everything before
}

// (task, the new comm, not yet set): through prctl, /proc/PID/comm and execve, whose thread has
// become the leader by then.
SEC("raw_tp/task_rename")
int on_rename(struct bpf_raw_tracepoint_args* arguments) {
  struct task_struct* task = (struct task_struct*)arguments->args[0];
  __u32 tgid = BPF_CORE_READ(task, tgid);
  if (BPF_CORE_READ(task, pid) != (int)tgid) return 0; // only the leader's comm is the process's

  union process_name name = {};
  bpf_probe_read_kernel_str(name.text, sizeof(name.text), (void*)arguments->args[1]);
  __u32 before = membership(tgid);
  __u32 now = before;
  if (is_asked_for(&name))
    now |= MEMBER_BY_COMM;
  else if (!settings.follow)
    now &= ~MEMBER_BY_COMM;
  set_membership(tgid, before, now);
  tell(tgid, now, &name);
  return 0;
}

// (parent, child): before the child runs. It is called what the thread is called that made it.
SEC("raw_tp/sched_process_fork")
int on_fork(struct bpf_raw_tracepoint_args* arguments) {
  struct task_struct* parent = (struct task_struct*)arguments->args[0];
  struct task_struct* child = (struct task_struct*)arguments->args[1];
  __u32 above = BPF_CORE_READ(parent, tgid);
  __u32 tgid = BPF_CORE_READ(child, tgid);
  if (above == tgid) return 0; // a thread

  union process_name name = {};
  BPF_CORE_READ_STR_INTO(&name.text, child, comm);
  __u32 inherited = membership(above);
  __u32 now = inherited & MEMBER_WHILE_NAMED; // its arguments are the parent's as well
  if (is_asked_for(&name)) now |= MEMBER_BY_COMM;
  if (settings.follow && inherited) now |= MEMBER_UNTIL_EXIT;
  // There is none before, but where user space has added one that had just ended.
  set_membership(tgid, membership(tgid), now);
  return 0;
}

// (task): the kernel has counted it out already.
SEC("raw_tp/sched_process_exit")
int on_exit(struct bpf_raw_tracepoint_args* arguments) {
  struct task_struct* task = (struct task_struct*)arguments->args[0];
  if (BPF_CORE_READ(task, signal, live.counter) != 0) return 0;
  __u32 tgid = BPF_CORE_READ(task, tgid);
  bpf_map_delete_elem(&processes, &tgid);
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
