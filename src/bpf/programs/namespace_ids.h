/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Ids of processes and threads as they are used in uprobectl's pid namespace. Include it after the
 * definition of `settings`, whose member `ids` is a struct id_namespace. */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* A task is in as many: Linux include/linux/pid_namespace.h, MAX_PID_NS_LEVEL. */
#define MAX_NAMESPACES 33

static __always_inline void* read_pointer(const void* at) {
  void* value = 0;
  return bpf_probe_read_kernel(&value, sizeof(value), at) == 0 ? value : 0;
}

static __always_inline __u32 read_word(const void* at) {
  __u32 value = 0;
  return bpf_probe_read_kernel(&value, sizeof(value), at) == 0 ? value : 0;
}

/* Returns the ids of a task as bpf_get_current_pid_tgid() does, the thread group id in the upper
 * half; 0 if the task is not visible in the namespace. Inlined, because each function of its own
 * takes 32 bytes of the stack. */
static __always_inline __u64 find_ids(__u64 task) {
  if (settings.ids.thread_pid == 0) return 0;
  void* thread = read_pointer((void*)task + settings.ids.thread_pid);
  void* leader = read_pointer((void*)task + settings.ids.group_leader);
  if (leader) leader = read_pointer(leader + settings.ids.thread_pid);
  if (!thread || !leader) return 0;
  __u64 level = read_word(thread + settings.ids.level);
  /* The innermost namespace comes first: it is mostly the first or the second one. */
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_NAMESPACES; i++) {
    __u64 number = settings.ids.numbers + level * settings.ids.number_size;
    void* namespace = read_pointer(thread + number + settings.ids.ns);
    if (namespace && read_word(namespace + settings.ids.inum) == settings.ids.inode)
      return (__u64)read_word(leader + number + settings.ids.nr) << 32 |
             read_word(thread + number + settings.ids.nr);
    if (level == 0) break;
    level--;
  }
  return 0;
}

/* Returns the ids of the running task. The helper knows only tasks whose own namespace it is, not
 * tasks in namespaces below it. */
static __noinline __u64 find_current_ids(void) {
#ifndef WITHOUT_RING /* the helper is older than ring buffers: Linux 5.7 */
  struct bpf_pidns_info found = {};
  if (settings.ids.device && bpf_get_ns_current_pid_tgid(settings.ids.device, settings.ids.inode,
                                                         &found, sizeof(found)) == 0)
    return (__u64)found.tgid << 32 | found.pid;
#endif
  return find_ids(bpf_get_current_task());
}

static __always_inline __u64 current_ids(void) {
  return settings.ids.inode ? find_current_ids() : bpf_get_current_pid_tgid();
}
