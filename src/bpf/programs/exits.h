/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Decides whether a probed exit leaves the function: a conditional jump may fall through, and an
 * indirect jump may stay in the function. */
#pragma once

#include "readings.h"

/* Whether the flags meet a condition. The lowest bit of its code negates, the others are an index
 * of `holding`. */
#if defined(TARGET_X86_64)
/* Intel SDM volume 2, B.1.4.7 (tttn). */
static __always_inline int flags_hold(struct registers* regs, __u32 code) {
  __u64 flags = FLAGS(regs);
  __u32 carry = flags & 1;
  __u32 parity = flags >> 2 & 1;
  __u32 zero = flags >> 6 & 1;
  __u32 sign = flags >> 7 & 1;
  __u32 overflow = flags >> 11 & 1;
  __u32 less = sign ^ overflow;
  __u32 holding = overflow | carry << 1 | zero << 2 | (carry | zero) << 3 | sign << 4 |
                  parity << 5 | less << 6 | (less | zero) << 7;
  return (holding >> (code >> 1 & 7) ^ code) & 1;
}
#elif defined(TARGET_AARCH64)
/* Arm ARM, C1.2.4. */
static __always_inline int flags_hold(struct registers* regs, __u32 code) {
  __u64 flags = FLAGS(regs);
  __u32 negative = flags >> 31 & 1;
  __u32 zero = flags >> 30 & 1;
  __u32 carry = flags >> 29 & 1;
  __u32 overflow = flags >> 28 & 1;
  __u32 greater_or_equal = negative ^ overflow ^ 1;
  __u32 holding = zero | carry << 1 | negative << 2 | overflow << 3 | (carry & (zero ^ 1)) << 4 |
                  greater_or_equal << 5 | (greater_or_equal & (zero ^ 1)) << 6;
  if (code >= 14) return 1; /* al, and nv, which is the same */
  return (holding >> (code >> 1 & 7) ^ code) & 1;
}
#else
#error "no conditions of jumps for this architecture"
#endif

static __always_inline int is_outside(struct registers* regs, struct exit_rule* rule,
                                      __u64 target) {
  __u64 distance = target - PROBED_ADDRESS(regs);
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MAX_CODE_RANGES; i++) {
    if (i >= rule->range_count) break;
    __u64 into = distance - rule->code_ranges[i][0];
    if (i == 0 && into == 0) return 1;
    if (into < rule->code_ranges[i][1]) return 0;
  }
  return 1;
}

/* Reads `tested`: a register, or a word in memory. Returns 0 or a negative errno. */
static __always_inline long read_tested(struct registers* regs, struct exit_rule* rule,
                                        __u64* tested) {
  struct reading* reading = &rule->tested;
  __u64 value = register_value(regs, reading->base);
  if (reading->scale > 0)
    value += extend(register_value(regs, reading->index), reading->index_size, 0) * reading->scale;
  if (reading->steps > 0) {
    value += reading->base_offset + reading->offsets[0];
    if (reading->pointer_size == 4) value = (__u32)value; /* wraps around */
    __u64 word = 0;
    long error = read_user(&word, reading->pointer_size == 4 ? 4 : 8, value);
    if (error) return error;
    value = word;
  }
  *tested = extend(value, reading->size, 0);
  return 0;
}

/* A jump whose target cannot be read is not an exit: the process would crash. */
static __always_inline int leaves_function(struct registers* regs, struct exit_rule* rule) {
  __u32 test = rule->test;
  if (test == EXIT_ALWAYS) return 1;
  if (test == EXIT_IF_FLAGS) return flags_hold(regs, rule->code);
  __u64 value = 0;
  if (read_tested(regs, rule, &value) != 0) return 0;
  switch (test) {
  case EXIT_IF_ZERO:
    return value == 0;
  case EXIT_IF_NOT_ZERO:
    return value != 0;
  case EXIT_IF_BIT_CLEAR:
    return !(value >> (rule->code & 63) & 1);
  case EXIT_IF_BIT_SET:
    return value >> (rule->code & 63) & 1;
  default:
    return is_outside(regs, rule, value);
  }
}
