/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The interface between user space and the built-in program: its settings, and the layout of its
 * records and map values. Native byte order, no hidden padding. */
#pragma once

#include "id_namespace.h"
#include "record_types.h"
#include "waits_record.h"

#ifdef __cplusplus
namespace uprobectl {
#endif

/* The reader is woken only when this many bytes are pending, because a wakeup for each record cuts
 * the rate of records by a factor of 2.6. The reader also polls every few tens of milliseconds. */
#define WAKEUP_WATERMARK (256 * 1024)

/* The constant that user space replaces with the probe's number in each copy of a program. It
 * differs from all other constants in the programs, and from all probe numbers. */
#define PROBE_NUMBER_PLACEHOLDER 0x7570726f62656374
#define PROBE_NUMBER_PLACEHOLDER_TEXT "0x7570726f62656374"

/* Set in the cookie of an event that several probes share; the lower half is the event's number.
 * The offset within the page identifies the probe. It is the same in the file and in all mappings,
 * and differs between the probes of one event. */
#define SHARED_COOKIE (1ULL << 63)
#define BITS_WITHIN_PAGE 12 /* of the smallest page */
/* A key of the map `probe_numbers`: event number and offset within the page. */
#define PROBE_NUMBER_KEY(cookie, address)                                                          \
  ((record_u32)((cookie) << BITS_WITHIN_PAGE) |                                                    \
   ((record_u32)(address) & ((1U << BITS_WITHIN_PAGE) - 1)))

/* When a reading or a filter term is evaluated. */
enum phase { PHASE_ENTRY = 0, PHASE_RETURN = 1 };

/* How the number of a reading is used. */
enum reading_form {
  READ_INTEGER = 0,          /* it is the value */
  READ_STRING = 1,           /* the address of a NUL-terminated string */
  READ_BYTES = 2,            /* the address of a buffer, see length_from */
  READ_LIBSTDCXX_STRING = 3, /* the address of a std::string, libstdc++'s C++11 ABI */
  READ_LIBCXX_STRING = 4,    /* the address of a std::string, libc++'s default layout */
  READ_JAVA_STRING = 5,      /* a reference to a java.lang.String of ART */
  /* the address of a std::string, libc++'s layout with _LIBCPP_ABI_ALTERNATE_STRING_LAYOUT */
  READ_LIBCXX_ALTERNATE_STRING = 6,
  LAST_READING_FORM = READ_LIBCXX_ALTERNATE_STRING
};

/* A reading with a guard says whether there is a value: readings that add it to their address fail
 * where there is none. It is 0, or fails with NO_VALUE. */
enum reading_guard { NO_GUARD = 0, NOT_ZERO = 1, IS_ZERO = 2 };

/* How a reading takes part in counts by values: flags. */
enum group_part {
  GROUP_SUMMED = 1,   /* its number is added to the group's sum */
  GROUP_OMITTED = 2,  /* it is not in the group's key */
  GROUP_ONLY_NULL = 4 /* in the key is only whether its number is 0: it is an address */
};

#define MAX_STEPS 8
#define NO_REGISTER 255 /* as a base: 0 */
/* A value of the probed code:
 * 1. The base: (register >> shift), or the value of an earlier reading; + base_offset
 *    + index * scale + thread pointer. If the earlier reading failed, this one fails in the same
 *    way.
 * 2. `steps` loads. Step i loads from the previous result + offsets[i]: a pointer, the last step
 *    `size` bytes.
 * 3. + addend. Of the result only `bit_count` bits from bit `bit_offset` on are used.
 * The value of an earlier reading, times offset_scale, is added before step `offset_step`; if that
 * is the number of steps, before the addend. If the earlier reading failed, this one does, too. */
struct reading {
  record_u8 form;  /* enum reading_form */
  record_u8 phase; /* enum phase */
  record_u8 base;  /* a register, numbered as in pt_regs.h, or NO_REGISTER */
  /* 1 + the earlier reading of the same plan that replaces the register; 0: none. At a return it
   * may be a reading of the entry if calls are paired. In a filter only such a reading, of the
   * plan of the probe; not in measurements. */
  record_u8 base_from;
  record_u8 steps;      /* at most MAX_STEPS */
  record_u8 size;       /* bytes of the value, which the last step loads: 1, 2, 4 or 8 */
  record_u8 is_signed;  /* sign-extended if set, zero-extended otherwise */
  record_u8 shift;      /* bits */
  record_u8 index;      /* a register */
  record_u8 scale;      /* 0: no index */
  record_u8 index_size; /* bytes of the index register that are used: 4 or 8 */
  record_u8 index_is_signed;
  record_u8 bit_offset;
  record_u8 bit_count;    /* 0: all of `size` */
  record_u8 pointer_size; /* in the probed code: 8 or 4 */
  /* 1 + the reading with the length of the buffer; 0: the capacity. READ_STRING: with the most
   * bytes before its NUL, if that is not negative. */
  record_u8 length_from;
  record_u8 length_is_end;       /* that reading is the address of the buffer's end */
  record_u8 adds_thread_pointer; /* to the base; see thread_layout */
  record_u8 in_group;            /* enum group_part */
  /* 1 + the earlier reading of the same plan whose value is added; 0: none. In a filter 1 + the
   * index of the term that has the reading, see filter_term::value. Not in measurements. */
  record_u8 offset_from;
  record_u8 offset_step; /* at most `steps` */
  /* 1 + the earlier reading of the same plan by which the number is multiplied, modulo 2^64; 0:
   * none. Not in filters. In `measured` of a plan 1: by `factor`. */
  record_u8 factor_from;
  record_u8 guard; /* enum reading_guard */
  record_u8 unused;
  record_s32 offset_scale; /* 0: 1 */
  record_u32 element_size; /* bytes for each unit of that reading; 0: 1 */
  record_u32 capacity;     /* maximum bytes read of a string or buffer; 0 for integers */
  record_u32 bytes_offset; /* of these bytes in the record */
  record_s32 offsets[MAX_STEPS];
  record_s64 base_offset;
  record_s64 addend;
};

/* Offsets in java.lang.String (AOSP art/runtime/mirror/string.h). The count is (length << 1) |
 * flag. With the flag characters are UTF-16, otherwise Latin-1. */
#define JAVA_STRING_COUNT_OFFSET 8
#define JAVA_STRING_CHARACTERS_OFFSET 16
#define JAVA_STRING_IS_UTF_16 1

/* In the status of a READ_STRING: the bytes are the beginning of a string that goes on in memory
 * that could not be read. They have no NUL. */
#define STRING_IS_CUT (1LL << 32)
/* A status: the address of a string, buffer or object is known, but could not be read. */
#define MEMORY_MISSED (-14LL - 256)
/* A status, see reading_guard: ENODATA. */
#define NO_VALUE (-61LL)

/* The result of a reading. */
struct reading_result {
  /* Bytes read (strings: with their NUL, see STRING_IS_CUT), or a negative errno, or
   * MEMORY_MISSED or NO_VALUE. */
  record_s64 status;
  /* READ_INTEGER: the number. READ_STRING, READ_BYTES: the address. std::string: the length.
   * READ_JAVA_STRING: the count. If status is negative: the address that could not be read. */
  record_u64 value;
};

enum comparison {
  IS_EQUAL = 0,
  IS_NOT_EQUAL = 1,
  IS_LESS = 2,
  IS_GREATER = 3,
  IS_AT_MOST = 4,
  IS_AT_LEAST = 5,
  HAS_BITS = 6, /* any bit of the constant */
  IS_IN_SET = 7,
  MATCHES = 8, /* a text and a pattern */
  IS_IN_TEXTS = 9
};

/* Says what a filter term compares. */
enum filter_subject {
  COMPARE_READING = 0,
  COMPARE_THREAD_ID = 1,
  COMPARE_PROCESS_ID = 2,
  COMPARE_CPU = 3,
  COMPARE_USER = 4,
  COMPARE_LATENCY = 5, /* of a paired call, at its return */
  COMPARE_THREAD_NAME = 6,
  COMPARE_PROCESS_NAME = 7,
  /* The return address, in the code that `callers` has of the process. */
  COMPARE_CALLER = 8,
  /* The result and errno of a call of a known function, by their readings. */
  COMPARE_FAILED = 9,
  COMPARE_ERRNO = 10,
  /* The parts of the latency of a paired call, at its return. */
  COMPARE_ON_CPU = 11,
  COMPARE_WAITING = 12,
  COMPARE_PREEMPTED = 13,
  COMPARE_SLEPT = 14,
  COMPARE_BLOCKED = 15
};

#define MAX_FILTER_TERMS 32
/* Targets of a filter term besides the index of a later term. */
#define FILTER_HOLDS 254
#define FILTER_FAILS 255

/* Compares a value, and names the term that follows. All targets are later terms, so a filter is
 * evaluated in one pass. */
struct filter_term {
  /* COMPARE_READING: an integer or a string; READ_BYTES is text of `capacity` bytes or up to its
   * NUL. With length_from the number of bytes is that of the term with this index + 1, which is
   * only a reading; text of fewer bytes than `capacity` does not match. Of READ_STRING it is the
   * maximum, unless it is negative. With offset_from, in the value or in its length, the number
   * that is added is that of another such term. COMPARE_CALLER: the return address. Others use
   * only the phase. */
  struct reading value;
  record_u8 subject;    /* enum filter_subject */
  record_u8 comparison; /* enum comparison */
  record_u8 is_signed;  /* a signed comparison */
  record_u8 guess_sign; /* sign-extend values that fit in 32 bits: the type is unknown */
  record_u8 if_true;
  record_u8 if_false;
  /* The value is not known. That of if_true and if_false that makes the filter fail rather than
   * hold, because a filter holds only if it would with any value. */
  record_u8 if_unknown;
  /* 4 or 8: the bits are a floating-point number of this size, and `constant` is as order_float()
   * makes it. 0: they are an integer. */
  record_u8 float_size;
  /* MATCHES: what all matching texts begin with, and its bits; a mask of 0: nothing. */
  record_u64 head[2];
  record_u64 head_mask[2];
  record_u64 constant; /* IS_IN_SET: the number of the set; IS_IN_TEXTS: the first state of a
                        * text_chunk; MATCHES: the number of the pattern, or, for COMPARE_CALLER,
                        * the bit of its code in a caller_map */
};

/* The bytes of text that a filter examines at a hit: chunks that are read at once, and how many. */
#define TEXT_CHUNK 64
#define MAX_TEXT_CHUNKS 16

/* An expression: a value of the map `filters`, there without unused terms at the end. The terms
 * that are compared come first, then those that are only readings: lengths and offsets. */
struct filter {
  record_u64 zeros[TEXT_CHUNK / 8 + 1]; /* which the verifier does not know */
  record_u32 term_count;                /* that are compared */
  record_u32 reading_count;             /* that are only readings */
  struct filter_term terms[MAX_FILTER_TERMS];
};

/* A key of the map `set_members`. */
struct set_member {
  record_u64 value;
  record_u32 set;
  record_u32 unused;
};

/* A key of the map `text_chunks`, which has the texts of large sets. Its value is the next state,
 * or PATTERN_ACCEPTS for the last chunk, which is the one with a NUL. */
struct text_chunk {
  record_u64 bytes[TEXT_CHUNK / 8]; /* zeros from the NUL on */
  record_u64 state;                 /* what precedes the chunk, of all sets */
};

/* Where the code of a process lies that filters compare with return addresses: a value of the map
 * `callers`. Each boundary is an address where something begins, and what: (address << 8) | bits.
 * They ascend, the first is 0, and unused ones have all bits set. */
#define CALLER_MAPPED 128      /* the address is in executable memory that is known */
#define MAX_CALLER_TERMS 7     /* bits 0 to 6: in the code of this term */
#define CALLER_BOUNDARIES 2048 /* a power of two */
struct caller_map {
  record_u64 boundaries[CALLER_BOUNDARIES];
};

/* A pattern is a state machine whose input is the text with a NUL at its end: a value of the map
 * `patterns`, the next states by state and byte. The first two states are final. */
#define PATTERN_REJECTS 0
#define PATTERN_ACCEPTS 1
#define PATTERN_START 2
#define MAX_PATTERN_STATES 4096
typedef record_u16 pattern_state[256];

/* Says what the filters of a run use, besides 1 << subject of each term. */
enum filter_feature {
  FILTERS_NUMBERS = 1 << 16,
  FILTERS_SETS = 1 << 17,
  FILTERS_TEXT = 1 << 18,
  /* The results of terms of the entry are kept until the return of the call. */
  FILTERS_CALLS = 1 << 19,
  FILTERS_LENGTHS = 1 << 20, /* texts have a length that is read */
  FILTERS_TEXT_SETS = 1 << 21,
  FILTERS_OFFSETS = 1 << 22, /* values have an offset that is read */
  FILTERS_FLOATS = 1 << 23,
  FILTERS_KEPT = 1 << 24 /* values at the return have the base_from of a reading of the entry */
};

#define MAX_READINGS 32

/* Says what a point does with a key. */
enum span_role_flag {
  ENDS_SPAN = 1,       /* otherwise it begins one */
  NO_NULL_KEY = 2,     /* a key of 0 is none: it is an address, or its type is not known */
  NO_NEGATIVE_KEY = 4, /* a negative key is none: it is a signed number */
  RETURNED_KEY = 8,    /* the key is in a register of the result, not known after a tail call */
  ONLY_IF_ZERO = 16,   /* at a return: calls with another result, of 32 bits, have no key */
  KEY_OF_THREAD = 32   /* the key belongs to the thread */
};
/* A span that a point begins or ends: --span. */
struct span_role {
  record_u16 span;
  record_u8 phase; /* enum phase */
  record_u8 flags; /* enum span_role_flag */
  record_u8 key;   /* 1 + the reading of the key; 0: the thread */
  record_u8 unused[3];
};
#define MAX_SPAN_ROLES 16

/* Says what a hit of a point captures. A value of the map `plans`, which has it without the unused
 * readings at its end. */
struct point_plan {
  record_u32 flags; /* those of PLAN_FLAGS */
  record_u32 reading_count;
  record_u32 filters[2];     /* by enum phase: 1 + the index in the map `filters`; 0: none */
  record_u32 end_filters[2]; /* likewise, of spans that a hit ends: with SPAN_CONDITIONS */
  record_u32 role_count;
  record_u32 pairs_calls;                 /* in a run with SPANS: roles are of the return, too */
  struct span_role roles[MAX_SPAN_ROLES]; /* those that end a span come first */
  struct reading measured;
  struct reading factor; /* of `measured`, if it has factor_from */
  struct reading readings[MAX_READINGS];
};

enum builtin_flag {
  SEND_RECORDS = 1,       /* send a record of each hit; otherwise hits are only counted */
  PAIR_CALLS = 2,         /* pair entries with returns: one record or measurement for both */
  COUNT_BY_PROCESS = 4,   /* keep process_counts */
  MEASURE_LATENCY = 8,    /* keep a histogram of latencies */
  MEASURE_VALUE = 16,     /* keep a histogram of `measured` */
  FILTER_BY_PROCESS = 32, /* by the map `processes` */
  FILTER_BY_USER = 64,    /* by `user` */
  FILTER_BY_CGROUP = 128, /* by the map `cgroups` */
  ONLY_PROBE = 256,       /* the run has one probe, number 0: the cookie is not read */
  COUNT_STACKS = 512,     /* keep stack_counts */
  /* Entry probes are at the start of the function, where the return address is known. */
  AT_FUNCTION_START = 1024,
  COPY_STACK = 2048,         /* records have a copy of the user stack, and the registers */
  WALK_STACK = 4096,         /* records have the addresses found by frame pointers */
  EXIT_RULES = 8192,         /* some exits have a rule, see exit_rule */
  BY_TRAMPOLINE = 1 << 16,   /* returns are probed by uretprobes */
  BY_GOROUTINE = 1 << 17,    /* identify calls by goroutine: Go moves stacks to other addresses */
  SIX_ARGUMENTS = 1 << 18,   /* there are no readings: record the six integer arguments */
  POINTERS_32 = 1 << 19,     /* the probed code has pointers of 4 bytes */
  ONLY_CALLER = 1 << 20,     /* with WALK_STACK: only the probed address and the caller */
  HAS_TRIGGERS = 1 << 21,    /* a hit starts or stops recording, see trigger_flag */
  STARTS_LATER = 1 << 22,    /* with HAS_TRIGGERS: nothing is recorded before a hit */
  NEST_CALLS = 1 << 23,      /* records have a call_position; losses are also counted by thread */
  ONLY_UNTIL = 1 << 24,      /* the probe only tells when its function is entered (--until) */
  STOPS_PROCESS = 1 << 25,   /* a hit whose record is sent stops its process */
  SPANS = 1 << 26,           /* hits begin and end spans, records are pairs of them: span_part */
  SPAN_STACKS = 1 << 27,     /* with SPANS: both ends have their stack in the map `stacks` */
  TRACKS_WAITS = 1 << 28,    /* records have call_waits */
  SPAN_CONDITIONS = 1 << 29, /* with SPANS: some plans have end_filters */
  TRACKS_CAUSES = 1 << 30    /* with TRACKS_WAITS: also why threads wait */
};
/* Flags that may differ between the plans of a run. */
#define PLAN_FLAGS                                                                                 \
  (AT_FUNCTION_START | COPY_STACK | BY_GOROUTINE | SIX_ARGUMENTS | POINTERS_32 | ONLY_UNTIL)

/* Says what the readings of a run use, besides 1 << form of each. */
enum reading_feature {
  USES_INDEX = 1 << 8,
  USES_BASE_FROM = 1 << 9,
  USES_LENGTH_FROM = 1 << 10,
  USES_THREAD_POINTER = 1 << 11,
  USES_OFFSET_FROM = 1 << 12,
  USES_FACTOR = 1 << 13,
  USES_GUARD = 1 << 14
};

/* Where the kernel stores the return addresses that uretprobes replaced: offsets of members in
 * bytes. The members have these names since Linux 4.3 (include/linux/uprobes.h). */
struct return_instance_layout {
  record_u32 utask;            /* in task_struct; 0: the layout is unknown */
  record_u32 return_instances; /* in uprobe_task */
  record_u32 stack;            /* in return_instance, like the following */
  record_u32 orig_ret_vaddr;
  record_u32 next;
};

/* Where the kernel counts the pending uretprobes of a thread: offsets in bytes. */
struct nesting_layout {
  record_u32 utask; /* in task_struct; 0: the layout is unknown */
  record_u32 depth; /* in uprobe_task: 32 bits */
};

/* Where the kernel keeps the name of the process: offsets of members of task_struct in bytes. */
struct process_name_layout {
  record_u32 group_leader; /* 0: the layout is unknown */
  record_u32 comm;
};

/* The members of task_struct by which the kernel knows the thread pointer of user space: offsets in
 * bytes. */
struct thread_layout {
  record_u32 address;     /* x86-64: the thread pointer; arm64: clear_child_tid. 0: unknown */
  record_u32 robust_list; /* arm64 */
};

/* glibc's struct pthread (nptl/descr.h): robust_head is after tid, 4 unused bytes and robust_prev.
 * The kernel has the addresses of both. */
#define PTHREAD_TID_TO_ROBUST_HEAD 16

/* The times of a call. */
enum call_time {
  TIME_LATENCY = 0,
  TIME_ON_CPU = 1,  /* while its thread ran */
  TIME_WAITING = 2, /* the rest */
  /* The parts of TIME_WAITING, in the order of wait_cause. */
  TIME_PREEMPTED = 3,
  TIME_SLEPT = 4,
  TIME_BLOCKED = 5
};

/* The program's read-only data: what is the same at all probes of a run. It is frozen before the
 * program is loaded, so that the verifier removes the code of unused features, and knows the sizes
 * and limits. */
struct builtin_settings {
  record_u32 flags;      /* enum builtin_flag; of PLAN_FLAGS those that any plan has */
  record_u32 plan_flags; /* of PLAN_FLAGS those that not all plans have */
  record_u32 user;       /* real user id in the initial user namespace */
  record_u32 plan_count; /* 0: plans are not needed; 1: all probes have the first one */
  record_u64 min_latency_ns;
  record_u32 record_size;      /* of all records of a run, a multiple of 8 */
  record_u32 kept_size;        /* bytes of the record while it is kept in `calls` */
  record_u32 registers_offset; /* of the registers in the record; 0: no registers */
  record_u32 stack_offset; /* of the stack_head in the record, or of a group's stack_key; 0: none */
  record_u32 stack_size;   /* maximum bytes after the stack_head, a multiple of 8 */
  record_u32 returns_offset; /* of the replaced_returns in the record; 0: none */
  /* Maxima over all plans. */
  record_u32 max_readings;
  record_u32 max_terms; /* of a filter */
  record_u32 max_steps;
  record_u32 max_capacity;
  record_u32 max_bytes_offset;             /* + max_capacity is inside the record */
  record_u32 reading_features;             /* enum reading_feature, and 1 << form */
  struct return_instance_layout returns;   /* valid if returns_offset is not 0 */
  struct nesting_layout nesting;           /* used with BY_TRAMPOLINE */
  record_u32 filter_features;              /* enum filter_feature, and 1 << subject */
  record_u32 pattern_states;               /* of each pattern, a power of two; 0: no patterns */
  struct process_name_layout process_name; /* used with COMPARE_PROCESS_NAME */
  struct thread_layout thread;             /* used with USES_THREAD_POINTER */
  /* Which hits of a probe are recorded, of those that passed the filters: */
  record_u32 sample;          /* records the first and then every Nth; 0: all */
  record_u32 max_in_window;   /* records of a probe in one window; 0: no limit */
  record_u32 window_ms;       /* length of a window, which begins with a record */
  record_u32 position_offset; /* of the call_position in the record; 0: none */
  record_u32 group_by;        /* enum group_feature; 0: hits are not counted by values */
  struct id_namespace ids;
  record_u32 span_offset;   /* of the span_part in a half of the record; 0: no spans */
  record_u32 hit_size;      /* of a record with SPANS: bytes of the hit that ends the span, after
                             * which is the hit that began it */
  record_u32 max_roles;     /* over all plans */
  record_u32 waits_offset;  /* of the call_waits in the record, or in a half of it; 0: none */
  record_u32 measured_time; /* enum call_time, of MEASURE_LATENCY and SUMS_LATENCY */
  record_u32 follows_tail_calls; /* some exits have a role, see exit_role */
  record_u64 max_duration_ns;    /* of spans; 0: no maximum */
  struct task_state_layout task_state;
  record_u32 longest_offset; /* of the kept_wait in the record of a call; 0: none */
  /* Bytes of a kept_wait with what follows it, a multiple of 8. 0: waits are not kept. */
  record_u32 kept_wait_size;
  record_u32 wait_returns_offset; /* of the replaced_returns in it; 0: none */
  record_u32 wait_stack_offset;   /* of the stack in it, which has `stack_size` bytes */
  record_u32 sends_waits;         /* each wait during a call is a RECORD_WAIT */
  record_u32 unused;
};

/* The program's writable data. */
struct run_state {
  /* Hits count only while this is set: after the last probe is attached and before the first is
   * detached, so that all probes count for the same time. */
  record_u32 armed;
  record_u32 unused;
  /* CLOCK_MONOTONIC in ns. Calls that began earlier are given up: user space removes their entries
   * of `calls`, whose memory is then used again at once. */
  record_u64 given_up_before;
};

/* Says what a hit of a probe's entry does besides being recorded: values of the map
 * `trigger_flags`. */
enum trigger_flag {
  STARTS_RECORDING = 1,
  STOPS_RECORDING = 2, /* once it has started */
  IS_ONLY_TRIGGER = 4, /* the entry is not recorded */
  ENDS_WAITING = 8     /* user space writes the events around it (--until); not in the map */
};
/* The value of the map `recording_state`. Both only change from 0 to 1. */
struct recording_state {
  record_u32 started;
  record_u32 stopped;
};

/* `window` is the current time window of a probe: the time when it began, in milliseconds, above
 * the number of records in it. */
#define WINDOW_COUNT_BITS 24
#define MAX_WINDOW_COUNT ((1U << WINDOW_COUNT_BITS) - 1)
struct limit_state {
  record_u64 hits[2]; /* seen by the sampling, by enum phase */
  record_u64 window;
};

enum record_kind {
  RECORD_ENTRY = 0,
  RECORD_RETURN = 1,
  RECORD_CALL = 2, /* an entry and its return */
  /* A stack that is new for this process. Consists of the probe_record only, and lets the reader
   * look at the mappings of the process before it ends. */
  RECORD_NEW_STACK = 3,
  /* A wait during a call of the probe. Consists of the probe_record and the kept_wait. */
  RECORD_WAIT = 4
};

/* How a function was left. */
enum left_by {
  LEFT_UNKNOWN = 0, /* uretprobes do not report it */
  LEFT_BY_RETURN = 1,
  LEFT_BY_TAIL_CALL = 2, /* a jump to another function, which makes the return value */
  /* A jump to code that takes down the stack frame and returns. The return address is not at the
   * top of the stack or in the link register yet. */
  LEFT_BY_EPILOGUE = 3
};

/* The cookie of a probe on an exit: the probe's number, and in the upper half the index of its rule
 * in the map `exits`. Index 0 is a return instruction. Indexes are too small to set SHARED_COOKIE,
 * which only probes on entries have. */
#define EXIT_RULE_SHIFT 32
#define EXIT_COOKIE(number, rule)                                                                  \
  ((record_u64)(record_u32)(number) | (record_u64)(rule) << EXIT_RULE_SHIFT)

enum exit_test {
  EXIT_ALWAYS = 0,
  EXIT_IF_FLAGS = 1,     /* the flags meet the condition `code`: x86 tttn, arm64 cond */
  EXIT_IF_ZERO = 2,      /* `tested` is 0 */
  EXIT_IF_NOT_ZERO = 3,  /* `tested` is not 0 */
  EXIT_IF_BIT_CLEAR = 4, /* bit `code` of `tested` is 0 */
  EXIT_IF_BIT_SET = 5,   /* bit `code` of `tested` is 1 */
  EXIT_IF_OUTSIDE = 6    /* `tested` is the function's start, or outside of `code_ranges` */
};

/* Says how an exit takes part in a tail call that is followed. Such a call ends where the function
 * returns to which it has jumped. */
enum exit_role {
  EXIT_ENDS_CALL = 0,
  EXIT_JUMPS_ON = 1, /* a jump to a function whose exits are probed: the call goes on there */
  EXIT_OF_CALLEE = 2 /* an exit of such a function: ends a call that has jumped there */
};

/* Whether the instruction at an exit leaves the function, given the registers before it runs. */
#define MAX_CODE_RANGES 4
struct exit_rule {
  record_u32 test;    /* enum exit_test */
  record_u32 left_by; /* enum left_by */
  record_u32 code;
  record_u32 range_count;
  record_u64 raises_stack; /* bytes that the stack pointer is raised by before the return */
  record_u32 role;         /* enum exit_role */
  record_u32 through_slot; /* 1: the jump is followed only if the word at `slot` has `callee` */
  /* Addresses relative to the probed instruction, modulo 2^64. */
  record_u64 slot;
  record_u64 callee;
  struct reading tested;
  /* The function's code: start and size of each range, in bytes. Starts are relative to the probed
   * instruction, modulo 2^64. The function starts at the first range. */
  record_u64 code_ranges[MAX_CODE_RANGES][2];
};

/* The head of a record. These follow it:
 * - a reading_result for each reading, or with SIX_ARGUMENTS RECORD_VALUES integer arguments; there
 *   is room for as many as any plan of the run has;
 * - the registers, the call_position, the call_waits, then the bytes of strings and buffers;
 * - replaced_returns, then a stack_head with the stack; or instead, of RECORD_CALL, the kept_wait.
 */
struct probe_record {
  record_u64 time_ns; /* CLOCK_MONOTONIC; of RECORD_CALL and RECORD_WAIT: the end */
  record_u64 cookie;  /* the probe's number, in the order of attaching */
  record_u32 pid;     /* thread group, pid namespace of uprobectl */
  record_u32 tid;
  record_u32 cpu;
  record_u16 kind;         /* enum record_kind */
  record_u16 left_by;      /* enum left_by; 0 for an entry */
  char comm[16];           /* NUL-terminated */
  record_u64 return_value; /* while it is kept in `calls`: call_key::stack_pointer */
  record_u64 latency_ns;   /* RECORD_CALL */
};

/* User space nests the calls of a thread by these values. */
struct call_position {
  /* At the hit, but before a return has popped the return address. On the stack of a goroutine,
   * which moves: minus the distance from its upper end, modulo 2^64. */
  record_u64 stack_pointer;
  record_u64 goroutine;   /* the address of the runtime's g; 0: none */
  record_u64 lost_before; /* records of this thread that have been lost so far, or more */
};

/* The value of the map `losses_state`. */
struct thread_losses_state {
  record_u64 any;    /* a record was lost */
  record_u64 others; /* of threads for which there was no room in the map `thread_losses` */
};

/* The kernel's limit for one thread (Linux include/linux/uprobes.h, MAX_URETPROBE_DEPTH). */
#define MAX_REPLACED_RETURNS 64
/* A return address on the stack that a uretprobe replaced. */
struct replaced_return {
  record_u64 stack_pointer; /* at the function's entry */
  record_u64 address;       /* the original return address */
};
/* The replaced return addresses of the thread, the innermost function first. For RECORD_CALL they
 * are read at the entry, before that of the probed function is replaced. Usually there are none, so
 * `count` is next to the stack_head, in the same cache line. */
struct replaced_returns {
  struct replaced_return list[MAX_REPLACED_RETURNS];
  record_u64 count;
};

/* With COPY_STACK the stack's bytes follow, read at the hit; for RECORD_CALL at the return, but
 * with the registers of the entry: the frames of the callers are the same. With WALK_STACK run-time
 * addresses follow, the probed one first. */
struct stack_head {
  record_u64 address;    /* of the first byte of the copy */
  record_u32 size;       /* bytes that follow; fewer than requested at the end of the stack */
  record_u32 has_caller; /* the copy starts with `caller`, which the return has popped */
  record_u64 caller;     /* the return address, at a function's entry */
};
#define MIN_STACK_BYTES 256
#define MAX_STACK_BYTES 65528U /* as in perf_event_attr.sample_stack_user */

/* A record with SPANS has one of these in each half, which is the hit that began or ended the span.
 */
struct span_part {
  record_u64 key;
  record_u32 span;
  record_u32 unused;
  record_s64 stack;  /* with SPAN_STACKS, as in a stack_key */
  record_u64 caller; /* likewise */
};
/* A key of the map `spans`, whose values are the hits that began the open spans. */
struct span_key {
  record_u64 value;
  record_u32 process;
  record_u32 span;
  record_u32 thread; /* with KEY_OF_THREAD, otherwise 0 */
  record_u32 unused;
};
/* Indexes of span_counts::counters. Of the spans that began, each has ended, was replaced, or is
 * open. */
enum span_counter {
  SPANS_BEGUN = 0,
  SPANS_ENDED = 1,
  SPANS_REPLACED = 2,   /* began again with the same key, and did not end */
  SPANS_FULL = 3,       /* did not begin: the map was full */
  SPANS_NO_BEGIN = 4,   /* ends of spans that were not open */
  SPANS_NULL_KEY = 5,   /* hits without a key: a null pointer, a negative number, a failed call */
  SPANS_NO_KEY = 6,     /* hits whose key could not be read */
  SPANS_EXCLUDED = 7,   /* among those that ended: shorter than the minimum */
  SPANS_UNSELECTED = 8, /* among those that ended: a condition on the end or the duration fails */
  SPAN_COUNTERS = 9
};
struct span_counts {
  record_u64 counters[SPAN_COUNTERS];
};

#define RECORD_VALUES 6 /* integer arguments, recorded if there are no readings */

/* Indexes of the map `lost`: hits without a record and calls without one of their ends, summed over
 * all probes. */
enum lost_reason {
  LOST_BUFFER_FULL = 0,
  LOST_TABLE_FULL = 1, /* too many processes, stacks or values to count */
  LOST_NESTED = 2,     /* calls nested deeper than the kernel's limit for uretprobes */
  LOST_CALLS_FULL = 3, /* calls while the map `calls` was full */
  /* Calls that ended without a return, for example by longjmp(). Detected at the next call with
   * the same key. */
  LOST_NO_RETURN = 4,
  LOST_NO_ENTRY = 5, /* returns whose entry was not seen */
  /* These calls are not a loss: their entry was skipped by a filter, or as LOST_CALLS_FULL. Their
   * returns are counted as LOST_NO_ENTRY. */
  SKIPPED_CALLS = 6,
  LOST_UNDECIDED = 7, /* hits that a filter excluded because a value was not read */
  LOST_UNMAPPED = 8,  /* the same, because the mappings of the process are not known */
  /* These hits are not a loss: the full map `thread_waits` does not have their threads. */
  LOST_THREADS_FULL = 9,
  /* These are not hits: the scheduler has not reported that a thread left or got a CPU. */
  LOST_SWITCHES = 10,
  LOST_REASONS = 11
};

/* Indexes of probe_counts::counters. */
enum probe_counter {
  COUNTED_ENTRIES = 0,
  COUNTED_RETURNS = 1,
  COUNTED_EXCLUDED = 2, /* hits excluded by a filter or the minimum latency */
  COUNTED_UNPAIRED = 3, /* returns whose entry was not seen, or was removed */
  COUNTED_FILTERED = 4, /* entries in processes that were not asked for */
  /* Hits that passed the filters, but were left out by sampling or by the rate limit. They are
   * among the entries and returns, too. */
  COUNTED_SAMPLED_OUT = 5,
  COUNTED_RATE_LIMITED = 6,
  COUNTED_OUTSIDE = 7,    /* entries before the start or after the stop of recording */
  COUNTED_TRIGGERS = 8,   /* hits of an entry that starts or stops recording, or of a trigger */
  COUNTED_INVISIBLE = 9,  /* entries in processes outside of uprobectl's pid namespace */
  COUNTED_NO_RETURN = 10, /* calls that were left without a return, as LOST_NO_RETURN counts them */
  COUNTED_ENDED_NO_CALL = 11, /* hits at exits of other functions (EXIT_OF_CALLEE) */
  /* The returns that are hidden for the same reasons. */
  COUNTED_FILTERED_RETURNS = 12,
  COUNTED_OUTSIDE_RETURNS = 13,
  COUNTED_INVISIBLE_RETURNS = 14,
  PROBE_COUNTERS = 15
};
struct probe_counts {
  record_u64 counters[PROBE_COUNTERS];
};

/* Added to process_probe::probe and to stack_key::probe of a hit at a return. */
#define COUNTED_AT_RETURN (1U << 31)
struct process_probe {
  record_u32 process;
  record_u32 probe;
};
struct process_count {
  record_u64 count;
  char comm[16];
};

/* How hits are counted by values. */
enum group_feature {
  GROUPS = 1, /* by the readings of the plan, and by: */
  BY_PROCESS_ID = 2,
  BY_THREAD_ID = 4,
  BY_THREAD_NAME = 8,
  BY_STACK = 16,     /* and by the process, because the addresses are its own */
  SUMS_LATENCY = 32, /* instead of a reading with GROUP_SUMMED */
  BY_CPU = 64,
  /* The next two count by readings, as GROUPS does. */
  BY_FAILED = 128,
  BY_ERRNO = 256
};

/* A key of the map `groups` is a record of the run in which everything is 0 by which hits are not
 * counted: of its head the members that are not asked for, except `cookie`, `kind` and, if it is
 * LEFT_BY_TAIL_CALL, `left_by`. With BY_STACK it has a stack_key at stack_offset. A Linux limit: a
 * key has at most MAX_GROUP_BYTES. */
#define MAX_GROUP_BYTES 512 /* MAX_BPF_STACK (include/linux/filter.h) */
struct group_sums {
  record_u64 count;
  record_u64 measured; /* hits whose value was read and added to the sum */
  record_u64 sum;      /* modulo 2^64 */
};

/* The maximum of one stack: the default of kernel.perf_event_max_stack. */
#define MAX_FRAMES 127
/* In stack_key::stack. */
#define STACK_COLLIDED (1ULL << 62)
/* A user stack at a hit, found by frame pointers. */
struct stack_key {
  record_u32 process;
  record_u32 probe;
  /* Its id in the map `stacks`; with STACK_COLLIDED its key in `collided_stacks`; or a negative
   * errno. */
  record_s64 stack;
  record_u64 caller; /* the return address at an entry, which frame pointers do not show there */
};

/* Four buckets for each power of two: the numbers below 4, then [2^n + k * 2^(n-2), …). */
#define HISTOGRAM_BUCKETS 252
struct histogram_counts {
  record_u64 total; /* sum, modulo 2^64 */
  /* The maximum and minimum, encoded as unsigned numbers that only grow from 0. */
  record_u64 highest;  /* the maximum with its sign bit inverted */
  record_u64 lowest;   /* the minimum with its sign bit inverted, then all bits inverted */
  record_u64 negative; /* how many numbers were below 0; they are in no bucket */
  record_u64 buckets[HISTOGRAM_BUCKETS];
};

#ifdef __cplusplus
static_assert(sizeof(probe_record) == 64);
static_assert(sizeof(stack_head) == 24);
static_assert(sizeof(replaced_returns) == 8 + 16 * MAX_REPLACED_RETURNS);
static_assert(sizeof(reading) == 88);
static_assert(sizeof(filter_term) == 136);
static_assert(sizeof(filter) == 80 + 136 * MAX_FILTER_TERMS);
static_assert(sizeof(set_member) == 16);
static_assert(sizeof(text_chunk) == 72);
static_assert(sizeof(stack_key) == 24);
static_assert(sizeof(span_part) == 32);
static_assert(sizeof(point_plan) == 32 + 8 * MAX_SPAN_ROLES + 2 * 88 + 88 * MAX_READINGS);
static_assert(sizeof(builtin_settings) == 248);
static_assert(sizeof(exit_rule) == 48 + 88 + 16 * MAX_CODE_RANGES);
} // namespace uprobectl
#endif
