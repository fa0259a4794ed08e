/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The interface between user space and the program that tracks processes (processes.bpf.c). Native
 * byte order, no hidden padding. */
#pragma once

#include "id_namespace.h"

#ifdef __cplusplus
namespace uprobectl {
#endif

#define COMM_BYTES 16 /* with the NUL: TASK_COMM_LEN of include/linux/sched.h */
#define MAX_PROCESSES 16384

/* Why a process is in the set. A map value is a nonempty combination of these. */
#define MEMBER_BY_COMM 1     /* its comm is one of the names; set and cleared by the kernel side */
#define MEMBER_WHILE_NAMED 2 /* user space found a name, as in argv[0]; it clears this, too */
#define MEMBER_UNTIL_EXIT 4  /* requested by pid, or a followed child */

union process_name {
  char text[COMM_BYTES]; /* padded with NULs */
  unsigned long long words[2];
};

struct process_settings {
  unsigned int names;  /* of the map of that name; 0: none is looked up */
  unsigned int follow; /* children of members become members, whatever their names */
  struct id_namespace ids;
};

/* Counts what the program could not do since it was loaded. */
struct process_losses {
  unsigned int renames;  /* not reported: the buffer was full */
  unsigned int left_out; /* processes that are not in the set: it was full */
};

struct rename_record {
  unsigned int tgid;   /* pid namespace of uprobectl */
  unsigned int member; /* the map value after the rename; 0: not a member */
  char comm[COMM_BYTES];
};

#ifdef __cplusplus
static_assert(sizeof(process_settings) == 48);
static_assert(sizeof(process_losses) == 8);
static_assert(sizeof(rename_record) == 24);
} // namespace uprobectl
#endif
