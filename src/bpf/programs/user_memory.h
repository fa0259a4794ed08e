/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Reads memory of the probed process. The SLEEPABLE program (Linux 6.0) also reads memory that is
 * not resident: it waits until the kernel has loaded the page.
 *
 * What sleeping changes:
 * - The thread stays in the kernel until the program ends. Signal handlers run only after that, so
 *   no hit of the same thread comes in between, and its entry of `calls` stays its own.
 * - Other threads may run the program on the same CPU meanwhile. So no state is in per-CPU memory
 *   between two instructions: counters are added to atomically, records are built in `calls`.
 * - A ring buffer holds back all records after one that is reserved. So nothing faults while a
 *   record is reserved. */
#pragma once

#include "maps.h"

/* Sizes and offsets come from a map. Each one is compared with a limit in `settings`, which the
 * verifier knows. The value is hidden before, so that clang compares and uses the same register,
 * and after, so that it does not use a copy on the stack from before the comparison: verifiers
 * before Linux 6.8 do not know that its limit applies to the copy, too. */
#define HIDE_VALUE(variable) asm volatile("" : "+r"(variable))
#define INVALID_ARGUMENT (-22L) /* EINVAL; for the verifier, plans are valid */
#define BAD_ADDRESS (-14L)      /* EFAULT */

#define SMALLEST_PAGE 4096

/* The helpers that do not fault reject addresses with a tag (Linux commit d319f344561d, "mm: Fix
 * copy_from_user_nofault()", v6.4 and stable kernels), and so do the others if the process has not
 * asked for the tagged address ABI. So addresses are read without their tag. Memory that has tags
 * itself (MTE) is then read with it by the program that waits. */
#define HAS_TAG(address) (((address) & ~ADDRESS_BITS) != 0)

/* Shifts are used, because a mask takes a register, so that the compiler would store a size on the
 * stack before it is compared with its limit (HIDE_VALUE). */
static __always_inline __u64 without_tag(__u64 address) {
#ifdef TARGET_AARCH64
  asm("%0 <<= 8\n%0 >>= 8" : "+r"(address));
#endif
  return address;
}

/* Reads all or nothing, without a fault. Returns 0 or a negative errno. */
static __always_inline long read_resident(void* into, __u64 size, __u64 from) {
  return bpf_probe_read_user(into, size, (const void*)without_tag(from));
}

/* Reads all or nothing. Returns 0 or a negative errno. */
static __always_inline long read_user(void* into, __u64 size, __u64 from) {
  long error = read_resident(into, size, from);
#ifdef SLEEPABLE
  if (error) error = bpf_copy_from_user(into, size, (const void*)without_tag(from));
  if (error && HAS_TAG(from)) error = bpf_copy_from_user(into, size, (const void*)from);
#endif
  return error;
}

/* Reads up to the NUL, or capacity - 1 characters and a NUL, without a fault. Returns the number of
 * bytes with the NUL, or a negative errno. */
static __always_inline long read_resident_string(void* into, __u64 capacity, __u64 from) {
  return bpf_probe_read_user_str(into, capacity, (const void*)without_tag(from));
}

/* Other functions read through these. */
#pragma GCC poison bpf_probe_read_user bpf_probe_read_user_str bpf_copy_from_user

/* The pages that a string of the largest capacity may lie in. */
#define MAX_STRING_PAGES 3

/* Reads a string that is not in one piece of resident memory, page by page. See
 * read_user_string(). */
static __noinline long read_string_pages(void* into, __u64 capacity, __u64 from) {
  __u64 readable = 0;
  __u64 end = SMALLEST_PAGE - (from & (SMALLEST_PAGE - 1)); /* of the page, from `from` on */
#pragma clang loop unroll(disable)
  for (__u32 page = 0; page < MAX_STRING_PAGES; page++) {
#ifdef SLEEPABLE
    /* Loads the page. Pages past the string's end are not touched. */
    if (read_user(into, 1, from + readable) != 0) break;
    HIDE_VALUE(capacity);
    if (capacity > settings.max_capacity) return INVALID_ARGUMENT;
    HIDE_VALUE(capacity);
    long size = read_resident_string(into, capacity, from);
    if (size >= 0) return size;
#endif
    HIDE_VALUE(end);
    if (end >= capacity || end > settings.max_capacity) break;
    HIDE_VALUE(end);
    if (read_resident(into, end, from) != 0) break;
    readable = end;
    end += SMALLEST_PAGE;
  }
  HIDE_VALUE(readable);
  if (readable == 0 || readable > settings.max_capacity) return BAD_ADDRESS;
  HIDE_VALUE(readable);
  /* The last read, which failed, has overwritten it. */
  long error = read_resident(into, readable, from);
  return error ? error : (long)(readable | STRING_IS_CUT);
}

/* Reads a string. Returns what reading_result::status documents. */
static __always_inline long read_user_string(void* into, __u64 capacity, __u64 from) {
  long size = read_resident_string(into, capacity, from);
  return size >= 0 ? size : read_string_pages(into, capacity, from);
}

/* Reads a piece of a string: up to its NUL, or size - 1 characters and a NUL. `size` is less than a
 * page. Returns the number of bytes with the NUL, or a negative errno. */
static __always_inline long read_user_piece(void* into, __u64 size, __u64 from) {
  long read = read_resident_string(into, size, from);
#ifdef SLEEPABLE
  /* The piece may lie in two pages; the second is only touched if it is needed. */
  if (read < 0 && read_user(into, 1, from) == 0) read = read_resident_string(into, size, from);
  if (read < 0 && read_user(into, 1, from + size - 1) == 0)
    read = read_resident_string(into, size, from);
#endif
  return read;
}
