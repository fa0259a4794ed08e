/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the program that keeps the set of processes shares with user space. Native byte order, no
 * hidden padding. */
#pragma once

#ifdef __cplusplus
namespace uprobectl {
#endif

#define COMM_BYTES 16 /* with the NUL: TASK_COMM_LEN of include/linux/sched.h */
#define MAX_NAMES 32
#define MAX_PROCESSES 16384

/* Why a process is in the set: the values of the map are sums of these, never 0. */
#define MEMBER_BY_COMM 1     /* its comm is one of the names; the kernel alone sets and clears it */
#define MEMBER_WHILE_NAMED 2 /* user space knows it by another name; clears it, too */
#define MEMBER_UNTIL_EXIT 4  /* given by its pid, or a child that is followed */

union process_name {
  char text[COMM_BYTES]; /* padded with NULs */
  unsigned long long words[2];
};

struct process_settings {
  unsigned int names;  /* how many */
  unsigned int follow; /* children of members are members whatever they are called */
  union process_name name[MAX_NAMES];
};

struct rename_record {
  unsigned int tgid; /* initial pid namespace */
  unsigned int member;
  char comm[COMM_BYTES];
};

#ifdef __cplusplus
static_assert(sizeof(process_settings) == 8 + MAX_NAMES * COMM_BYTES);
static_assert(sizeof(rename_record) == 24);
} // namespace uprobectl
#endif
