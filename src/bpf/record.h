/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What user space and the built-in program tell each other: how it is set up before it is loaded,
 * and what it puts into its buffer and maps. Native byte order, no hidden padding. */
#pragma once

#ifdef __cplusplus
#include <cstdint>
namespace uprobectl {
using record_u16 = std::uint16_t;
using record_u32 = std::uint32_t;
using record_u64 = std::uint64_t;
using record_s64 = std::int64_t;
#else
typedef unsigned short record_u16;
typedef unsigned int record_u32;
typedef unsigned long long record_u64;
typedef long long record_s64;
#endif

/* Waking the reader costs more than the record (2.6 times fewer records per second), so it is woken
 * only when this many bytes wait for it; until then it comes by itself every few tens of
 * milliseconds. */
#define WAKEUP_WATERMARK (256 * 1024)

/* What stands for a probe's number in a program that is copied for each probe: a constant that
 * nothing else in it is, and no number of a probe. */
#define PROBE_NUMBER_PLACEHOLDER 0x7570726f62656374
#define PROBE_NUMBER_PLACEHOLDER_TEXT "0x7570726f62656374"

/* Where many probes share an event, and so a cookie, it has this bit, and the number of the event
 * in the lower half. They are told apart by where in its page each is, which a file and its
 * mappings have in common: no two of an event are at the same place. */
#define SHARED_COOKIE (1ULL << 63)
#define BITS_WITHIN_PAGE 12 /* of the smallest page */
#define PLACE_KEY(cookie, address)                                                                 \
  ((record_u32)((cookie) << BITS_WITHIN_PAGE) |                                                    \
   ((record_u32)(address) & ((1U << BITS_WITHIN_PAGE) - 1)))

/* When something is read or asked. */
enum moment { MOMENT_ENTRY = 0, MOMENT_RETURN = 1 };

/* What is done with the bytes or the number that a reading comes to. */
enum reading_form {
  READ_INTEGER = 0,
  READ_STRING = 1,           /* NUL-terminated, at the address that was read */
  READ_BYTES = 2,            /* as many as length_from says, or all of the capacity */
  READ_LIBSTDCXX_STRING = 3, /* std::string of libstdc++'s C++11 ABI */
  READ_LIBCXX_STRING = 4,    /* std::string of libc++, its default layout */
  READ_JAVA_STRING = 5       /* java.lang.String of ART, at the reference that was read */
};

#define MAX_STEPS 2
#define NO_REGISTER 255 /* as a base: 0 */
/* One value: a register (moved down by `shift` bits), an index register added `scale` times, then
 * so many steps through memory, each to what lies `offsets[i]` behind the address that the one
 * before came to, then `addend`. */
struct reading {
  record_u32 form;   /* enum reading_form */
  record_u32 moment; /* enum moment */
  record_u32 base;   /* a register, as registers.h numbers them */
  record_u32 steps;  /* at most MAX_STEPS */
  record_s64 offsets[MAX_STEPS];
  record_s64 addend;
  record_u32 size;         /* bytes of the value: 1, 2, 4 or 8 */
  record_u32 is_signed;    /* else it is extended with zeros */
  record_u32 capacity;     /* most bytes read of a string or a buffer; 0 for integers */
  record_u32 bytes_offset; /* where in the record they go */
  record_u32 length_from;  /* 1 + the reading that has the number of bytes; 0: the capacity */
  record_u32 shift;
  record_u32 index;      /* a register */
  record_u32 scale;      /* 0: no index is added */
  record_u32 index_size; /* bytes of the register that count: 4 or 8 */
  record_u32 index_is_signed;
};

/* AOSP art/runtime/mirror/string.h: behind the object's header the count, (length << 1) | the flag,
 * then the hash, then the characters: of one byte (Latin-1), or with the flag of two (UTF-16). */
#define JAVA_STRING_COUNT_AT 8
#define JAVA_STRING_CHARACTERS_AT 16
#define JAVA_STRING_IS_UTF_16 1

/* What a reading came to. */
struct reading_result {
  record_s64 status; /* bytes read (strings: with their NUL), or an errno, negative */
  /* The number; the address of a string or buffer; the length of a std::string; the
   * count of a Java string. With an errno the
   * address that could not be read. */
  record_u64 value;
};

enum comparison {
  IS_EQUAL = 0,
  IS_NOT_EQUAL = 1,
  IS_LESS = 2,
  IS_GREATER = 3,
  IS_AT_MOST = 4,
  IS_AT_LEAST = 5,
  HAS_BITS = 6
};

struct condition {
  struct reading value; /* READ_INTEGER */
  record_u32 comparison;
  record_u32 is_signed;  /* how the two are compared */
  record_u32 guess_sign; /* a number of 32 bits with its top bit set is taken for a negative one */
  record_u32 unused;
  record_u64 constant;
};

#define MAX_READINGS 16
#define MAX_CONDITIONS 4

enum builtin_flag {
  SEND_RECORDS = 1,       /* else hits are only counted */
  PAIR_CALLS = 2,         /* an entry waits for its return; one record or measurement for both */
  COUNT_BY_PROCESS = 4,   /* keep process_counts */
  MEASURE_LATENCY = 8,    /* histogram of latencies */
  MEASURE_VALUE = 16,     /* histogram of `measured` */
  FILTER_BY_PROCESS = 32, /* only members of the map of processes */
  FILTER_BY_USER = 64,
  FILTER_BY_CGROUP = 128,
  COUNT_STACKS = 512, /* keep stack_counts */
  AT_FUNCTION_START =
      1024,                /* the probe is where its function begins, so that the caller is known */
  ONLY_PROBE = 256,        /* there is no other, so it need not be told from others */
  COPY_STACK = 2048,       /* the record has bytes of the user stack, with the registers */
  EXIT_RULES = 8192,       /* some exits have a rule */
  WALK_STACK = 4096,       /* the record has the addresses that frame pointers lead to */
  BY_TRAMPOLINE = 1 << 16, /* returns are told by the kernel's return probes */
  BY_GOROUTINE = 1 << 17   /* calls are known by goroutine: the runtime moves their stacks */
};

/* Where the kernel keeps the return addresses of a thread that its return probes have replaced:
 * offsets in bytes of members that have had these names since Linux 4.3 (include/linux/uprobes.h).
 */
struct return_instance_layout {
  record_u32 utask;            /* in task_struct; 0: nothing of this is known */
  record_u32 return_instances; /* in uprobe_task */
  record_u32 stack;            /* in return_instance, as those below */
  record_u32 orig_ret_vaddr;
  record_u32 next;
};

/* Where the kernel counts the return probes that wait in a thread: offsets in bytes. */
struct nesting_layout {
  record_u32 utask; /* in task_struct; 0: nothing of this is known */
  record_u32 depth; /* in uprobe_task: 32 bits */
};

/* Frozen when the program is loaded: what it does not ask for the verifier takes out of it. */
struct builtin_settings {
  record_u32 flags; /* enum builtin_flag */
  record_u32 user;  /* real user id in the initial user namespace */
  record_u64 min_latency_ns;
  record_u32 record_size;      /* of all records of a run, a multiple of 8 */
  record_u32 registers_offset; /* where in the record all registers go; 0: they are not asked for */
  record_u32 pointer_size;     /* in the probed code: 8 or 4 */
  record_u32 reading_count;    /* 0: the six integer arguments */
  record_u32 condition_count;
  record_u32 stack_offset;   /* where in the record its stack_head is; 0: there is none */
  record_u32 stack_size;     /* most bytes that lie behind that, a multiple of 8 */
  record_u32 kept_size;      /* bytes of a record that is under construction in a map */
  record_u32 returns_offset; /* where in the record its replaced_returns are; 0: there are none */
  struct return_instance_layout returns; /* known where returns_offset is not 0 */
  struct nesting_layout nesting;         /* asked for with BY_TRAMPOLINE */
  struct reading measured;
  struct condition conditions[MAX_CONDITIONS];
  struct reading readings[MAX_READINGS];
};

enum record_kind {
  RECORD_ENTRY = 0,
  RECORD_RETURN = 1,
  RECORD_CALL = 2,     /* an entry and its return */
  RECORD_NEW_STACK = 3 /* only the probe_record: a process has come to a probe by a new way, and
                          what it maps should be looked at while it lives */
};

enum left_by {
  LEFT_UNKNOWN = 0, /* a return probe of the kernel's does not tell */
  LEFT_BY_RETURN = 1,
  LEFT_BY_TAIL_CALL = 2 /* a jump out of the function: it has no return value yet */
};

/* A probe on an exit has in the upper half of its cookie which of the map `exits` is its rule. It
 * is never so many that SHARED_COOKIE, of entries alone, could be meant. 0: a return. */
#define EXIT_RULE_SHIFT 32
#define EXIT_COOKIE(number, rule)                                                                  \
  ((record_u64)(record_u32)(number) | (record_u64)(rule) << EXIT_RULE_SHIFT)

enum exit_test {
  EXIT_ALWAYS = 0,
  EXIT_IF_FLAGS = 1,     /* the condition `code`: x86 tttn, arm64 cond */
  EXIT_IF_ZERO = 2,      /* `tested` */
  EXIT_IF_NOT_ZERO = 3,  /* likewise */
  EXIT_IF_BIT_CLEAR = 4, /* the bit `code` of it */
  EXIT_IF_BIT_SET = 5,   /* likewise */
  EXIT_IF_OUTSIDE = 6    /* it is an address outside of `code_ranges`, or the first one's */
};

/* Whether the instruction at an exit leaves the function, as the registers before it say. */
#define MAX_CODE_RANGES 4
struct exit_rule {
  record_u32 test;    /* enum exit_test */
  record_u32 left_by; /* enum left_by */
  record_u32 code;
  record_u32 range_count;
  struct reading tested;
  /* The function's own code: where each piece begins, counted from the probed instruction, modulo
   * 2^64, and its size in bytes. The function begins where the first one does. */
  record_u64 code_ranges[MAX_CODE_RANGES][2];
};

/* What a record begins with. Behind it lie, unless readings are asked for, six values; else a
 * reading_result for each, then the registers, then the bytes of strings and buffers, then
 * replaced_returns, then a stack_head with what it tells of. */
struct probe_record {
  record_u64 time_ns; /* CLOCK_MONOTONIC; of a call its return */
  record_u64 cookie;  /* which probe: its number in the order they were attached */
  record_u32 pid;     /* thread group, initial pid namespace */
  record_u32 tid;
  record_u32 cpu;
  record_u16 kind;    /* enum record_kind */
  record_u16 left_by; /* enum left_by; of an entry 0 */
  char comm[16];      /* NUL-terminated */
  record_u64 return_value;
  record_u64 latency_ns; /* RECORD_CALL */
};

/* As many as a thread can have (Linux include/linux/uprobes.h, MAX_URETPROBE_DEPTH). */
#define MAX_REPLACED_RETURNS 64
struct replaced_return {
  record_u64 stack_pointer; /* when the function was entered */
  record_u64 address;       /* where it was to return to */
};
/* Of the functions that the thread is in, the innermost first: at a hit, of a call at its entry,
 * where the function's own is not yet replaced. Mostly there are none: `count` is near the
 * stack_head, so that no memory has to be fetched for it. */
struct replaced_returns {
  struct replaced_return list[MAX_REPLACED_RETURNS];
  record_u64 count;
};

/* With COPY_STACK bytes of the stack follow, as they were at a hit; of a call as its return has
 * left them, with the registers of its entry: what its callers have there is the same. With
 * WALK_STACK run-time addresses follow, the probed one first. */
struct stack_head {
  record_u64 address;    /* of the first byte of the copy */
  record_u32 size;       /* bytes that follow; not all that were asked for where the stack ends */
  record_u32 has_caller; /* the copy begins with `caller`, which a return has taken off the stack */
  record_u64 caller;     /* at the entry of a function: where it returns to */
};
#define MIN_STACK_BYTES 256    /* what a copy is short of what was asked for at most */
#define MAX_STACK_BYTES 65528U /* as in perf_event_attr.sample_stack_user */

#define RECORD_VALUES 6 /* integer arguments that are recorded where no readings are asked for */

/* Hits that no record tells of, and calls without one of their two ends, over all probes. */
enum lost_reason {
  LOST_BUFFER_FULL = 0,
  LOST_TABLE_FULL = 1, /* no room for another process or stack to count */
  LOST_NESTED = 2,     /* calls too deep for the kernel's return probes */
  LOST_CALLS_FULL = 3, /* calls that found `calls` full */
  LOST_NO_RETURN = 4,  /* calls that were left without a return, as the next one from there tells */
  LOST_NO_ENTRY = 5,   /* returns whose entry was not seen */
  /* No loss: calls whose entries were left out, by a condition or as LOST_CALLS_FULL. Their returns
   * are LOST_NO_ENTRY. */
  SKIPPED_CALLS = 6,
  LOST_REASONS = 7
};

/* Counters of each probe, in this order. */
enum probe_counter {
  COUNTED_ENTRIES = 0,
  COUNTED_RETURNS = 1,
  COUNTED_EXCLUDED = 2, /* hits that a condition or the least latency left out */
  COUNTED_UNPAIRED = 3, /* returns whose entry was not seen, or was forgotten */
  COUNTED_FILTERED = 4, /* hits in processes that a filter passed over */
  PROBE_COUNTERS = 5
};
struct probe_counts {
  record_u64 counters[PROBE_COUNTERS];
};

struct process_probe {
  record_u32 process;
  record_u32 probe;
};
struct process_count {
  record_u64 count;
  char comm[16];
};

/* The user stacks that processes came to probes with, by frame pointers. */
#define MAX_FRAMES                                                                                 \
  127 /* of one stack: kernel.perf_event_max_stack, as it is where nobody sets it */
struct stack_key {
  record_u32 process;
  record_u32 probe;
  record_s64 stack;  /* its number in the map of stacks, or an errno, negative */
  record_u64 caller; /* at entry: the return address, which frame pointers do not tell there */
};

/* Four buckets for each power of two: the numbers below 4, then [2^n + k * 2^(n-2), …). */
#define HISTOGRAM_BUCKETS 252
struct histogram_counts {
  record_u64 total; /* sum, modulo 2^64 */
  /* Of the signed numbers, if there were any, so that both are at least the 0 they begin with. */
  record_u64 highest;  /* with the sign bit turned over, which makes the order that of unsigned */
  record_u64 lowest;   /* the same, with all bits turned over */
  record_u64 negative; /* how many were below zero, which have no bucket */
  record_u64 buckets[HISTOGRAM_BUCKETS];
};

#ifdef __cplusplus
static_assert(sizeof(probe_record) == 64);
static_assert(sizeof(stack_head) == 24);
static_assert(sizeof(replaced_returns) == 8 + 16 * MAX_REPLACED_RETURNS);
static_assert(sizeof(reading) == 80);
static_assert(sizeof(condition) == 104);
static_assert(sizeof(exit_rule) == 16 + 80 + 16 * MAX_CODE_RANGES);
} // namespace uprobectl
#endif
