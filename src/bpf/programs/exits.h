/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Whether a probed exit is one this time: a conditional jump may fall through, an indirect one may
 * stay in its function. */
#pragma once

#include "readings.h"

#if defined(TARGET_X86_64)
/* Intel SDM volume 2, B.1.4.7: tttn, of which the lowest bit negates. */
static __always_inline int flags_hold(struct registers* regs, __u32 code) {
  __u64 flags = regs->flags;
  int carry = flags & 1;
  int parity = flags >> 2 & 1;
  int zero = flags >> 6 & 1;
  int sign = flags >> 7 & 1;
  int overflow = flags >> 11 & 1;
  int holds = 0;
  switch (code >> 1) {
  case 0:
    holds = overflow;
    break;
  case 1:
    holds = carry;
    break;
  case 2:
    holds = zero;
    break;
  case 3:
    holds = carry | zero;
    break;
  case 4:
    holds = sign;
    break;
  case 5:
    holds = parity;
    break;
  case 6:
    holds = sign ^ overflow;
    break;
  case 7:
    holds = (sign ^ overflow) | zero;
    break;
  }
  return holds ^ (code & 1);
}
#else
/* Arm ARM, C1.2.4: of the condition the lowest bit negates. */
static __always_inline int flags_hold(struct registers* regs, __u32 code) {
  __u64 flags = regs->pstate;
  int negative = flags >> 31 & 1;
  int zero = flags >> 30 & 1;
  int carry = flags >> 29 & 1;
  int overflow = flags >> 28 & 1;
  int holds = 0;
  switch (code >> 1) {
  case 0:
    holds = zero;
    break;
  case 1:
    holds = carry;
    break;
  case 2:
    holds = negative;
    break;
  case 3:
    holds = overflow;
    break;
  case 4:
    holds = carry & (zero ^ 1);
    break;
  case 5:
    holds = negative ^ overflow ^ 1;
    break;
  case 6:
    holds = (negative ^ overflow ^ 1) & (zero ^ 1);
    break;
  default: /* always */
    return 1;
  }
  return holds ^ (code & 1);
}
#endif

static __always_inline int is_outside(struct registers* regs, struct exit_rule* rule,
                                      __u64 target) {
  __u64 distance = target - PROBED_ADDRESS(regs);
#pragma clang loop unroll(disable)
  for (__u32 i = 0; i < MOST_CODE_RANGES; i++) {
    if (i >= rule->range_count) break;
    __u64 into = distance - rule->code_ranges[i][0];
    if (i == 0 && into == 0) return 1;
    if (into < rule->code_ranges[i][1]) return 0;
  }
  return 1;
}

/* A register, or the word that registers lead to; 0, or a negative errno. */
static __always_inline long read_tested(struct registers* regs, struct exit_rule* rule,
                                        __u64* tested) {
  struct reading* reading = &rule->tested;
  __u64 value = register_value(regs, reading->base);
  if (reading->scale > 0)
    value += extend(register_value(regs, reading->index), reading->index_size, 0) * reading->scale;
  if (reading->steps > 0) {
    value += reading->offsets[0];
    if (!(settings.pointer_size & 8)) value = (__u32)value; /* where sums wrap around */
    __u64 word = 0;
    long error = bpf_probe_read_user(&word, settings.pointer_size & 8 ? 8 : 4, (const void*)value);
    if (error) return error;
    value = word;
  }
  *tested = extend(value, reading->size, 0);
  return 0;
}

/* What cannot be read is no exit: the jump would end the process. */
static __always_inline int is_left(struct registers* regs, struct exit_rule* rule) {
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
