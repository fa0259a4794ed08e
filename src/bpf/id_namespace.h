/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The pid namespace in which uprobectl runs, as its BPF programs need it to report the ids of
 * processes and threads that are used there. Native byte order, no hidden padding. */
#pragma once

#ifdef __cplusplus
namespace uprobectl {
#endif

struct id_namespace {
  unsigned int inode;  /* of the namespace in nsfs; 0: the initial one, whose ids the kernel uses */
  unsigned int device; /* of nsfs, as the kernel's dev_t; 0: it has no helper that takes it */
  /* Where the kernel keeps the ids of a task in each namespace: offsets in bytes. */
  unsigned int thread_pid;   /* in task_struct; 0: the layout is unknown */
  unsigned int group_leader; /* in task_struct */
  unsigned int level;        /* in struct pid: the index of its last number */
  unsigned int numbers;     /* in struct pid: an array of struct upid, from the initial namespace */
  unsigned int number_size; /* bytes of a struct upid */
  unsigned int nr;          /* in struct upid: the id */
  unsigned int ns;          /* in struct upid: the namespace */
  unsigned int inum;        /* in struct pid_namespace: its inode */
};

#ifdef __cplusplus
static_assert(sizeof(id_namespace) == 40);
} // namespace uprobectl
#endif
