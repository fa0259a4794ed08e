/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Whose hits are looked at. */
#pragma once

#include "maps.h"

static __always_inline int is_wanted(void) {
  if ((settings.flags & FILTER_BY_USER) && (__u32)bpf_get_current_uid_gid() != settings.user)
    return 0;
  if (settings.flags & FILTER_BY_PROCESS) {
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    if (!bpf_map_lookup_elem(&processes, &process)) return 0;
  }
  if ((settings.flags & FILTER_BY_CGROUP) && bpf_current_task_under_cgroup(&cgroups, 0) != 1)
    return 0;
  return 1;
}
