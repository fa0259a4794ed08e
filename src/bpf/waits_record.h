/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* How long threads wait, and why: layouts that user space and the built-in program share. Native
 * byte order, no hidden padding. */
#pragma once

#include "record_types.h"

#ifdef __cplusplus
namespace uprobectl {
#endif

/* Where the kernel keeps the state of a task, used with TRACKS_CAUSES. */
struct task_state_layout {
  record_u32 state;          /* offset in task_struct, bytes; 0: the layout is unknown */
  record_u32 has_prev_state; /* the 4th argument of sched_switch is the state (Linux 5.18) */
};

/* Why a thread left its CPU. */
enum wait_cause {
  WAIT_PREEMPTED = 0, /* it could have gone on */
  WAIT_SLEPT = 1,     /* for an event; signals wake it (TASK_INTERRUPTIBLE) */
  WAIT_BLOCKED = 2,   /* for an event that is not interrupted (TASK_UNINTERRUPTIBLE) */
  WAIT_CAUSES = 3
};

/* How long the thread was not on a CPU, in ns. */
#define WAITS_UNKNOWN (~0ULL)
/* Added to the sums of a thread when the scheduler has not reported that it left or got a CPU: how
 * long it waited there is not known. A difference of two sums that is not below it is not known. */
#define SWITCH_MISSED (1ULL << 50) /* 13 days */
struct call_waits {
  /* RECORD_CALL: during the call. Others, in a run with SPANS all: since its first hit. */
  record_u64 waited_ns;
  record_u64 caused_ns[WAIT_CAUSES]; /* with TRACKS_CAUSES: its parts */
};
/* A value of the map `thread_waits`: since the thread's first hit. CLOCK_MONOTONIC. */
struct thread_waits {
  record_u64 waited_ns; /* until came_ns */
  record_u64 left_ns;   /* when it left a CPU last */
  record_u64 came_ns;   /* when it got a CPU last */
};

/* A wait during a call. The registers of user space follow, replaced_returns, and the stack. */
struct kept_wait {
  record_u64 left_ns;
  record_u64 duration_ns; /* 0: there is none */
  record_u32 cause;       /* enum wait_cause */
  record_u32 waker;    /* the thread that woke it; 0: not known, or an idle CPU was interrupted */
  char waker_comm[16]; /* empty: not woken, or by an idle CPU */
  record_u64 stack_address;
  record_u64 stack_size;
};

/* A call that the thread has not left. */
struct open_level {
  record_u64 stack_pointer; /* call_key::stack_pointer */
  record_u64 began_ns;
  record_u32 longest; /* which of the kept waits is its longest one */
  record_u32 probe;   /* its number */
};
/* Calls nested deeper share the last level. */
#define MAX_OPEN_LEVELS 4
#define NO_WAIT (MAX_OPEN_LEVELS + 1)
/* A value of the map `thread_waits` with TRACKS_CAUSES. If longest waits are kept, MAX_OPEN_LEVELS
 * + 1 kept waits follow: those of the levels, and that of the wait under way. If all waits are
 * sent, one RECORD_WAIT follows. */
struct thread_causes {
  struct thread_waits waits;
  record_u64 caused_ns[WAIT_CAUSES]; /* as waits.waited_ns */
  record_u64 registers;              /* the kernel's address of those of user space */
  record_u64 woken_ns;
  record_u32 waker;
  record_u32 cause; /* of the last wait */
  char waker_comm[16];
  record_u32 depth;    /* how many levels are open */
  record_u32 is_busy;  /* a program of the thread changes the levels */
  record_u32 pending;  /* which of the kept waits that under way is */
  record_u32 is_kept;  /* that has a stack */
  record_u32 reported; /* which of them is that of the call that has returned, or NO_WAIT */
  record_u32 unused;
  struct open_level levels[MAX_OPEN_LEVELS];
};

#ifdef __cplusplus
static_assert(sizeof(kept_wait) == 56);
} // namespace uprobectl
#endif
