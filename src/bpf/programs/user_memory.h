/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Reads the memory of the probed process. All programs read it through these functions. */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* Returns 0 or a negative errno. */
static __always_inline long read_user(void* into, __u64 size, const void* from) {
  return bpf_probe_read_user(into, size, from);
}

/* Reads up to the NUL, or size - 1 characters and adds a NUL. Returns the number of bytes with the
 * NUL, or a negative errno. */
static __always_inline long read_user_string(void* into, __u64 size, const void* from) {
  return bpf_probe_read_user_str(into, size, from);
}
