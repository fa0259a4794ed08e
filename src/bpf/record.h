/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the built-in program puts into its buffer, as the program and the decoder both see it.
 * Native byte order; the size is a multiple of 8 without hidden padding. */
#pragma once

#ifdef __cplusplus
#include <cstdint>
namespace uprobectl {
using record_u32 = std::uint32_t;
using record_u64 = std::uint64_t;
#else
typedef unsigned int record_u32;
typedef unsigned long long record_u64;
#endif

/* Waking the reader costs more than the record (2.6 times fewer records per second), so it is woken
 * only when this many bytes wait for it; until then it comes by itself every few tens of
 * milliseconds. */
#define WAKE_AT_BACKLOG (256 * 1024)

/* What stands for a probe's number in a program that is copied for each probe: a constant that
 * nothing else in it is, and no number of a probe. */
#define NUMBER_PLACEHOLDER 0x7570726f62656374
#define NUMBER_PLACEHOLDER_TEXT "0x7570726f62656374"

/* Where many probes share an event, and so a cookie, it has this bit, and the number of the event
 * in the lower half. They are told apart by where in its page each is, which a file and its
 * mappings have in common: no two of an event are at the same place. */
#define SHARED_COOKIE (1ULL << 63)
#define BITS_WITHIN_PAGE 12 /* of the smallest page */
#define PLACE_KEY(cookie, address)                                                                 \
  ((record_u32)((cookie) << BITS_WITHIN_PAGE) |                                                    \
   ((record_u32)(address) & ((1U << BITS_WITHIN_PAGE) - 1)))

enum record_kind { RECORD_ENTRY = 0, RECORD_RETURN = 1 };

struct probe_record {
  record_u64 time_ns; /* CLOCK_MONOTONIC */
  record_u64 cookie;  /* which probe: its number in the order they were attached */
  record_u32 pid;     /* thread group, initial pid namespace */
  record_u32 tid;
  record_u32 cpu;
  record_u32 kind;      /* enum record_kind */
  char comm[16];        /* NUL-terminated */
  record_u64 values[6]; /* RECORD_ENTRY: six integer arguments; RECORD_RETURN: values[0] */
};

#ifdef __cplusplus
static_assert(sizeof(probe_record) == 96);
} // namespace uprobectl
#endif
